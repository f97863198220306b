"""`overspill offsets accept`: lost offsets are set as told, found ones are left, lag stays true."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from deploy.cli import main
from deploy.offsets import Offsets
from runtime.connection import connection_of
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.topics import create_topics
from runtime.kafka.transactions import FencedProducer, transactional_id
from runtime.metrics import Metrics
from runtime.settings import Settings, load_settings
from schemas.errors import UsageError
from schemas.headers import Origin, Passage, encode_passage
from schemas.metadata import (
    FinishedCounts,
    RouterCounts,
    decode_finished,
    decode_router,
    encode_finished,
    encode_router,
)
from schemas.topics import catalogue, executor_group, router_group
from streams.router.service import open_router
from tests.kafka.scrapes import checked
from tests.waiting import until

if TYPE_CHECKING:
    from conftest import RunningKafka

pytestmark = pytest.mark.kafka

NOT_IN_LOG = 999
WITHIN_S = 40.0


@pytest.fixture
async def settings(kafka: RunningKafka) -> Settings:
    """Return settings of an installation of its own: topics of one partition, five gpu records."""
    made = load_settings(
        flags={
            "kafka.bootstrap_servers": kafka.bootstrap_servers,
            "prefix": f"accept-{uuid.uuid4().hex[:8]}.",
        }
    )
    await create_topics(connection_of(made), catalogue(made.topics, made.pools, 1))
    producer = AIOKafkaProducer(**connection_of(made))
    await producer.start()
    await producer.send_and_wait(made.topics.requests, b"{}")
    for number in range(5):
        await producer.send_and_wait(made.topics.pool("gpu"), **routed(made, number))
    await producer.stop()
    return made


def routed(settings: Settings, number: int) -> dict[str, Any]:
    """Return a pool record as a router writes it; its work is 10 to the number, in MFLOP."""
    origin = Origin(settings.topics.requests, 0, number)
    decision = {"reason": "fallback", "threshold": 10, "policy": "overflow", "counts_work": True}
    passage = Passage(f"r{number}", origin, 0, decision=orjson.dumps(decision))
    body = {"id": f"r{number}", "model_name": "m", "payload": {}}
    value = orjson.dumps({**body, "estimated_gflops": 10**number / 1000})
    return {"value": value, "headers": encode_passage(passage)}


async def commit(settings: Settings, group: str, topic: str, said: Committed) -> None:
    producer = FencedProducer(connection_of(settings), transactional_id(group, topic, 0), group)
    await producer.open()
    await producer.commit(Outputs(), {TopicPartition(topic, 0): said})
    await producer.close()
    await until_written(settings, group, topic)


async def until_written(settings: Settings, group: str, topic: str) -> None:
    """Return once what was committed last can be read: its end is confirmed a little before."""
    producer = FencedProducer(connection_of(settings), transactional_id(group, topic, 0), group)
    await producer.open()  # which waits for it
    await producer.close()


async def committed(settings: Settings, group: str, topic: str) -> Committed:
    await until_written(settings, group, topic)
    async with OffsetReader(connection_of(settings)) as reader:
        found = (await reader.committed(group, [TopicPartition(topic, 0)]))[
            TopicPartition(topic, 0)
        ]
    assert found is not None
    return found


async def test_a_routers_lost_offset_is_set_and_its_counts_fit_what_the_pools_have(
    settings: Settings,
) -> None:
    gpu, requests = settings.topics.pool("gpu"), settings.topics.requests
    routers, nodes = router_group(settings.prefix), executor_group(settings.prefix, "gpu")
    # Of five records two are finished, one of the three read is not, two were not read yet.
    await commit(
        settings,
        nodes,
        gpu,
        Committed(1, encode_finished(FinishedCounts(2, 3, unfinished=(1,), work=101))),
    )
    await commit(
        settings, routers, requests, Committed(NOT_IN_LOG, encode_router(RouterCounts({})))
    )

    async with Offsets(settings, connection_of(settings)) as offsets:
        assert [s.state for s in await offsets.standings() if s.partition.topic == requests] == [
            "not-in-log"
        ]
        accepted = await offsets.accept("router", "latest")
        assert [(a.partition.topic, a.offset) for a in accepted] == [(requests, 1)]
        assert await offsets.accept("router", "latest") == []

    said = await committed(settings, routers, requests)
    counts = decode_router(said.metadata)
    assert said.offset == 1
    assert counts.routed["gpu"] == (5,)
    assert counts.work["gpu"] == (11_111,)
    assert counts.balanced


@pytest.mark.parametrize(
    ("at", "offset", "finished", "work"), [("earliest", 0, 0, 0), ("latest", 5, 5, 11_111)]
)
async def test_a_pools_lost_offset_is_set_and_what_lies_before_it_counts_as_finished(
    settings: Settings, at: str, offset: int, finished: int, work: int
) -> None:
    gpu, nodes = settings.topics.pool("gpu"), executor_group(settings.prefix, "gpu")
    express = settings.topics.express("gpu")
    # Two more went by the express topic, which is not lost: they are finished there.
    counts = RouterCounts(
        {"gpu": (5,), "gpu.express": (2,)}, consumed=7, work={"gpu": (11_111 + 77,)}
    )
    await commit(
        settings, nodes, express, Committed(0, encode_finished(FinishedCounts(2, 0, work=77)))
    )
    await commit(
        settings,
        router_group(settings.prefix),
        settings.topics.requests,
        Committed(1, encode_router(counts)),
    )
    await commit(settings, nodes, gpu, Committed(NOT_IN_LOG, ""))

    flags = [
        "--bootstrap-servers",
        settings.kafka.bootstrap_servers,
        f"--set=prefix={settings.prefix}",
    ]
    assert (
        await asyncio.to_thread(main, ["offsets", "accept", "executor.gpu", "--at", at, *flags])
        == 0
    )

    said = await committed(settings, nodes, gpu)
    assert said.offset == offset
    assert decode_finished(said.metadata) == FinishedCounts(finished, offset, work=work)


async def test_a_router_that_waits_for_the_decision_goes_on_by_itself(settings: Settings) -> None:
    await commit(
        settings, router_group(settings.prefix), settings.topics.requests, Committed(NOT_IN_LOG, "")
    )
    metrics = Metrics("router", "test")
    router = await open_router(settings, connection_of(settings), metrics)
    running = asyncio.ensure_future(router.run())
    try:
        await until(lambda: "offsets-lost" in (router.unready or ""), WITHIN_S)
        checked("router", metrics.exposition().decode())
        async with Offsets(settings, connection_of(settings)) as offsets:
            (accepted,) = await offsets.accept("router", "earliest")
        assert accepted.offset == 0
        await until(lambda: "offsets-lost" not in (router.unready or ""), WITHIN_S)
    finally:
        await router.stop(5.0)
        await running


async def test_a_first_start_is_no_loss(settings: Settings) -> None:
    async with Offsets(settings, connection_of(settings)) as offsets:
        assert await offsets.accept("router", "latest") == []
        assert {standing.state for standing in await offsets.standings()} == {"none"}


async def test_a_group_that_is_none_of_ours_is_refused(settings: Settings) -> None:
    async with Offsets(settings, connection_of(settings)) as offsets:
        with pytest.raises(UsageError, match=r"router, executor\.gpu, executor\.cpu"):
            await offsets.accept("somebody-else", "latest")


def test_standings_are_printed_as_data(
    kafka: RunningKafka, capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    flags = [f"--bootstrap-servers={kafka.bootstrap_servers}", f"--set=prefix={settings.prefix}"]
    assert main(["offsets", "show", "--json", *flags]) == 0
    standings = json.loads(capsys.readouterr().out)
    assert {"router", "executor.gpu"} <= {
        said["group"].removeprefix(settings.prefix) for said in standings
    }
