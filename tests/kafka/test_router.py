"""A router against a real broker: each record exactly one ending, whatever happens to it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from lab.instruments.traffic import requests
from runtime.kafka.topics import create_topics
from runtime.tracing import ATTEMPT
from schemas import headers as h
from schemas.decisions import decode_decisions
from schemas.topics import EMBEDDED_PARTITIONS, catalogue
from schemas.work import mflop_of
from streams.router import service
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.spans import SAMPLED, TRACE, Collected
from tests.waiting import until

pytestmark = pytest.mark.kafka

BAD = {
    "null-value": None,
    "not-json": b"{",
    "bad-encoding": b"\xff\xfe\xfd",
    "invalid-field": b'{"id":"x","model_name":"m","payload":[]}',
    "too-deep": b'{"x":' + b"[" * 300 + b"]" * 300 + b"}",
    "unsupported-version": b'{"id":"x","model_name":"m","payload":{},"version":9}',
    "too-large": b'{"id":"x","model_name":"m","payload":{"p":"' + b"x" * (1 << 20) + b'"}}',
}


@pytest.fixture
async def place(kafka: RunningKafka) -> RoutePlace:
    made = RoutePlace(kafka.bootstrap_servers)
    await made.create()
    return made


async def all_consumed(place: RoutePlace, count: int) -> bool:
    return await place.consumed() == count


async def test_requests_pass_and_bad_records_die_whatever_codec_they_came_in(
    place: RoutePlace,
) -> None:
    documents = list(requests(40))
    values = [*documents, *BAD.values()]
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        producer = Producer(
            {"bootstrap.servers": place.settings.kafka.bootstrap_servers,
             "compression.type": codec, "message.max.bytes": 1 << 21, "linger.ms": 50}
        )  # fmt: skip
        for number, value in enumerate(values):
            fresh = value
            if value in documents:
                fresh = orjson.dumps(orjson.loads(value or b"") | {"id": f"{codec}-{number}"})
            producer.produce(
                place.names.requests, fresh, key=f"{codec}", headers=[("bin", b"\x00\xff")]
            )
        assert producer.flush(20) == 0
    total = len(codecs) * len(values)
    async with place.router():
        await until(lambda: all_consumed(place, total))
    assert set((await place.endings()).values()) == {1}
    buried = await place.read(place.names.dead_letter)
    causes = Counter(dict(r.headers)[h.ERROR_CATEGORY].decode() for r in buried)
    # Compressed, the too-large one is not too large for the topic: the router has to see it.
    assert causes == dict.fromkeys(BAD, len(codecs))
    assert {r.value for r in buried} == set(BAD.values())
    assert all(dict(r.headers)["bin"] == b"\x00\xff" for r in buried)
    routed = await place.read(*place.pool_topics)
    assert len(routed) == len(codecs) * len(documents)
    assert all(counts.balanced for counts in await place.counts())


async def stopped_in_a_transaction(place: RoutePlace, process: subprocess.Popen[bytes]) -> bool:
    """Stop the router when a transaction seems open, and return whether one really is."""
    await until(place.open_transactions, 60)
    process.send_signal(signal.SIGSTOP)
    # What it had sent before may still end the transaction: look again when that has arrived.
    await asyncio.sleep(0.2)
    return await place.open_transactions()


async def test_a_record_that_no_topic_could_keep_does_not_hold_up_its_partition(
    place: RoutePlace,
) -> None:
    producer = Producer(
        {"bootstrap.servers": place.settings.kafka.bootstrap_servers,
         "compression.type": "zstd", "message.max.bytes": 1 << 23}
    )  # fmt: skip
    # A few kB on the wire, 6 MiB once decompressed: a dead letter could not hold it.
    huge = b'{"id":"x","model_name":"m","payload":{"p":"' + b"x" * (6 << 20) + b'"}}'
    for value in (huge, *requests(2)):
        producer.produce(place.names.requests, value, partition=1)
        assert producer.flush(20) == 0
    async with place.router():
        await until(lambda: all_consumed(place, 3))
    (buried,) = await place.read(place.names.dead_letter)
    headers = dict(buried.headers)
    assert (buried.key, buried.value) == (None, None)
    assert headers[h.ORIGIN] == f"{place.names.requests}/1/0".encode()
    assert headers[h.ERROR_CATEGORY] == b"undecodable"
    assert len(await place.read(*place.pool_topics)) == 2


async def test_a_router_killed_in_an_open_transaction_loses_and_doubles_nothing(
    place: RoutePlace,
) -> None:
    count = 20_000
    await place.request(requests(count))
    process = place.router_process()
    try:
        while not await stopped_in_a_transaction(place, process):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        assert await place.open_transactions()
        assert await place.consumed() < count
    finally:
        process.kill()
    async with place.router():
        await until(lambda: all_consumed(place, count), 60)
    endings = await place.endings()
    assert (len(endings), set(endings.values())) == (count, {1})
    counts = await place.counts()
    assert sum(sum(map(sum, c.routed.values())) for c in counts) == count


async def test_a_trace_tells_what_ended_at_the_router(
    place: RoutePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = Collected("router")
    monkeypatch.setattr(service, "open_tracing", lambda *_: collected.tracing)
    late = orjson.loads(next(requests(1))) | {"id": "late", "expires_after_ms": 1}
    await place.request([*requests(8), orjson.dumps(late), b"{"], headers=list(SAMPLED))
    async with place.router():
        await until(lambda: all_consumed(place, 10))
    attempts = [span for span in collected.spans if span.name == ATTEMPT]
    assert {f"{span.context.trace_id:032x}" for span in attempts} == {TRACE}
    assert sorted(span.status.description for span in attempts) == ["expired", "not-json"]


async def test_a_repeat_is_recognised_by_the_routers_successor(place: RoutePlace) -> None:
    documents = list(requests(200))
    for _ in range(2):
        await place.request(documents)
        consumed = await place.consumed()
        async with place.router():
            await until(lambda: all_consumed(place, consumed + len(documents)))  # noqa: B023
    assert sum(c.duplicate for c in await place.counts()) == len(documents)
    assert len(await place.endings()) == len(documents)


async def test_lost_offsets_are_rebuilt_from_decisions(place: RoutePlace) -> None:
    first, then = list(requests(300)), list(requests(40, seed=2))
    await place.request(first)
    async with place.router():
        await until(lambda: all_consumed(place, 300))
    admin = AdminClient({"bootstrap.servers": place.settings.kafka.bootstrap_servers})
    for deleted in admin.delete_consumer_groups([place.group]).values():
        deleted.result(10)
    await place.request(then)
    async with place.router() as role:
        await until(lambda: all_consumed(place, 340), 30)
        assert "offsets-lost" not in (role.unready or "")
    endings = await place.endings()
    assert (len(endings), set(endings.values())) == (340, {1})
    counts = await place.counts()
    assert (sum(c.consumed for c in counts), sum(c.duplicate for c in counts)) == (340, 0)
    sent = sum(mflop_of(orjson.loads(value)["estimated_gflops"]) for value in (*first, *then))
    assert sum(sum(map(sum, c.work.values())) for c in counts) == sent


async def test_a_second_router_joins_and_leaves_under_load(place: RoutePlace) -> None:
    count = 6_000
    async with place.router():
        await place.request(requests(count // 2))
        async with place.router():
            await place.request(requests(count // 2, seed=2))
            await until(lambda: all_consumed(place, count), 60)
    endings = await place.endings()
    assert (len(endings), set(endings.values())) == (count, {1})


async def test_a_router_that_waits_for_control_stops_when_it_is_told(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FIRST_SNAPSHOT_WITHIN_S", 3600.0)
    nobody = RoutePlace(kafka.bootstrap_servers)
    await create_topics(nobody.connection, catalogue(nobody.names, nobody.settings.pools))
    async with nobody.router() as router:
        await until(lambda: router.unready == "waiting for the first snapshot")


async def test_every_transaction_leaves_its_decisions(place: RoutePlace) -> None:
    await place.request(requests(100))
    async with place.router():
        await until(lambda: all_consumed(place, 100))
    records = [decode_decisions(r.value or b"") for r in await place.read(place.names.decisions)]
    assert sum(len(record.rows) for record in records) == 100
    assert any(record.view.body is not None for record in records)
    for record in records:
        # The snapshot is published once: a machine with no time for us reaches it when it is old.
        assert record.mode in {"normal", "stale"}
        assert record.policy == "overflow"
    assert {record.partition for record in records} == set(range(EMBEDDED_PARTITIONS))
