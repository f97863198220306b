"""One transactional id, one owner: what a fenced producer promises on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from typing import TYPE_CHECKING

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka import transactions
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer
from schemas.errors import BrokerUnreachable, Fenced, OutcomeUnknown
from tests.kafka.places import LIMIT, Place

if TYPE_CHECKING:
    from tests.conftest import RunningKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
async def place(kafka: RunningKafka) -> Place:
    place = Place(kafka.bootstrap_servers)
    await place.create()
    return place


async def committed(place: Place) -> Committed | None:
    await place.settle()
    async with OffsetReader(place.connection) as offsets:
        return (await offsets.committed(place.group, [place.first()]))[place.first()]


async def test_outputs_and_offsets_are_committed_together(place: Place) -> None:
    producer = place.producer()
    await producer.open()
    await producer.commit(place.outputs(b"one", b"two"), {place.first(): Committed(2, "meta")})
    await producer.commit(place.outputs(b"three"), {place.first(): Committed(3, "data")})
    await producer.close()
    assert [origin for origin, _ in await place.copies()] == [b"one", b"two", b"three"]
    assert await committed(place) == Committed(3, "data")


async def test_offsets_alone_can_be_committed(place: Place) -> None:
    producer = place.producer()
    await producer.open()
    await producer.commit(Outputs(), {place.first(): Committed(9, "idle")})
    await producer.close()
    assert await committed(place) == Committed(9, "idle")


async def test_outputs_alone_can_be_committed_and_are_fenced_all_the_same(place: Place) -> None:
    first, second = (FencedProducer(place.connection, f"{place.group}.x") for _ in range(2))
    await first.open()
    await first.commit(place.outputs(b"one"), {})
    await first.commit(Outputs(), {})
    await second.open()
    with pytest.raises(Fenced):
        await first.commit(place.outputs(b"two"), {})
    await second.commit(place.outputs(b"three"), {})
    await second.close()
    assert [origin for origin, _ in await place.copies()] == [b"one", b"three"]


async def test_a_transaction_may_hold_more_than_a_batch(place: Place) -> None:
    outputs = Outputs()
    for number in range(3000):
        outputs.add(place.out, 0, b"%d" % number, b"v" * 300)
    outputs.add(place.out, 0, b"large", b"v" * 900_000)
    outputs.add(place.leader, 1, b"beside", None)
    producer = place.producer()
    await producer.open()
    await producer.commit(outputs, {place.first(): Committed(1, "")})
    await producer.close()
    assert [key for key, _ in await place.copies()] == [b"%d" % n for n in range(3000)] + [b"large"]
    assert await place.read(TopicPartition(place.leader, 1)) == [(b"beside", None)]


async def test_a_second_owner_of_the_id_fences_the_first(place: Place) -> None:
    first, second = place.producer(), place.producer()
    await first.open()
    await first.commit(place.outputs(b"one"), {place.first(): Committed(1, "")})
    await second.open()
    with pytest.raises(Fenced):
        await first.commit(place.outputs(b"two"), {place.first(): Committed(2, "")})
    with pytest.raises(OutcomeUnknown):  # it is used up
        await first.commit(place.outputs(b"two"), {place.first(): Committed(2, "")})
    await second.commit(place.outputs(b"three"), {place.first(): Committed(3, "")})
    await second.close()
    assert [origin for origin, _ in await place.copies()] == [b"one", b"three"]
    assert await committed(place) == Committed(3, "")


async def test_a_batch_the_broker_refuses_takes_its_offsets_with_it(place: Place) -> None:
    outputs = place.outputs(b"small")
    outputs.add(place.follower, 0, None, bytes(2 * LIMIT))
    producer = place.producer()
    await producer.open()
    with pytest.raises(OutcomeUnknown, match="MessageSizeTooLarge"):
        await producer.commit(outputs, {place.first(): Committed(7, "")})
    await producer.open()
    await producer.close()
    assert await committed(place) is None
    assert await place.copies() == []


async def test_a_commit_outlives_the_cancelling_of_its_caller(place: Place) -> None:
    producer = place.producer()
    await producer.open()
    commit = asyncio.ensure_future(
        producer.commit(place.outputs(b"one"), {place.first(): Committed(1, "m")})
    )
    await asyncio.sleep(0)
    commit.cancel()
    with pytest.raises(asyncio.CancelledError):
        await commit
    await producer.close()
    assert await committed(place) == Committed(1, "m")


async def test_a_slow_commit_counts_as_doubt_even_if_it_went_well(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "SLOW_COMMIT_S", 0.0)
    producer = place.producer()
    await producer.open()
    with pytest.raises(OutcomeUnknown):
        await producer.commit(place.outputs(b"one"), {place.first(): Committed(1, "")})
    await producer.close()
    assert await committed(place) == Committed(1, "")


async def test_a_commit_without_an_answer_ends_at_the_deadline(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "COMMIT_DEADLINE_S", 0.0)
    producer = place.producer()
    await producer.open()
    with pytest.raises(OutcomeUnknown):
        await producer.commit(place.outputs(b"one"), {place.first(): Committed(1, "")})
    await producer.open()
    await producer.close()
    assert await committed(place) is None
    assert await place.copies() == []


async def test_an_end_that_the_caller_was_told_of_is_not_logged_as_a_crash(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer, other = place.producer(), place.producer()
    await producer.open()
    await other.open()
    with pytest.raises(Fenced):
        await producer.commit(place.outputs(b"one"), {place.first(): Committed(1, "")})
    await other.close()
    outputs = place.outputs(b"two")
    outputs.add(place.follower, 0, None, bytes(2 * LIMIT))
    await producer.open()
    with pytest.raises(OutcomeUnknown):
        await producer.commit(outputs, {place.first(): Committed(2, "")})
    for ms in range(0, 20, 2):  # given up in every state that a transaction goes through
        monkeypatch.setattr(transactions, "COMMIT_DEADLINE_S", ms / 1000)
        outputs = place.outputs(b"three")
        outputs.add(place.follower, 0, None, b"four")
        await producer.open()
        with contextlib.suppress(OutcomeUnknown):
            await producer.commit(outputs, {place.first(): Committed(3, "")})
        await producer.close()
    del producer, other
    gc.collect()  # asyncio logs what nobody has read when it is thrown away
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []


async def test_nobody_answering_is_an_error_to_retry() -> None:
    producer = Place("127.0.0.1:9").producer()
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9"):
        await producer.open()
    await producer.close()


IN_MID_TRANSACTION = """
import asyncio, sys
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer, _write, transactional_id

async def main(servers, group, leader, out):
    owner = FencedProducer(
        {"bootstrap_servers": servers}, transactional_id(group, leader, 0), group
    )
    await owner.open()
    outputs = Outputs()
    outputs.add(out, 0, b"lost", None)
    await owner._producer.begin_transaction()
    await _write(owner._producer, outputs)
    print("sent", flush=True)
    await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_process_killed_in_mid_transaction_leaves_nothing(place: Place) -> None:
    servers = place.connection["bootstrap_servers"]
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        IN_MID_TRANSACTION,
        *(servers, place.group, place.leader, place.out),
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"sent\n"
    child.kill()
    await child.wait()
    out = TopicPartition(place.out, 0)
    async with OffsetReader(place.connection) as offsets:
        assert await offsets.end([out], stable=False) == {out: 1}
        assert await offsets.end([out]) == {out: 0}  # readers wait for the transaction's end
        successor = place.producer()
        await successor.open()
        await successor.commit(place.outputs(b"kept"), {place.first(): Committed(1, "")})
        await successor.close()
    assert [origin for origin, _ in await place.copies()] == [b"kept"]
