"""A lane writes each outcome once: through restarts, doubt and the loss of its partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest
from aiokafka.structs import TopicPartition

from executors import lane as lanes
from executors.lane import PoolLane
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Undecodable
from schemas.errors import OffsetsLost, OutcomeUnknown
from schemas.metadata import IN_FLIGHT_MAX, FinishedCounts, decode_finished, encode_finished
from tests.unit.executor_doubles import (
    HandBackend,
    PoolRecord,
    make_dispatcher,
    make_meter,
    record,
    settle,
)
from tests.waiting import until

POOL, EXPRESS = TopicPartition("p.gpu", 0), TopicPartition("p.gpu.express", 0)
FIRST_START = {POOL: Committed(0, ""), EXPRESS: Committed(0, "")}


class Broker:
    """The producer that a lane commits through, and what has been committed."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Committed] = dict(FIRST_START)
        self.records = 0
        self.commits = 0
        self.doubt: bool | None = None
        self.held = asyncio.Event()
        self.held.set()

    async def commit(self, outputs: Outputs, offsets: Mapping[TopicPartition, Committed]) -> None:
        await self.held.wait()
        doubt, self.doubt = self.doubt, None
        if doubt is not False:
            self.committed = dict(offsets)
            self.records += outputs.records
            self.commits += 1
        if doubt is not None:
            raise OutcomeUnknown("no answer")

    def counts(self, tp: TopicPartition = POOL) -> FinishedCounts:
        return decode_finished(self.committed[tp].metadata)


class Bench:
    """A lane on a bench: backend by hand, broker by hand."""

    def __init__(self, slots: int = 2) -> None:
        self.backend, self.broker = HandBackend(), Broker()
        self.dispatcher = make_dispatcher(self.backend, slots=slots)
        self.lane = self.new_lane()
        self.running: asyncio.Task[None] | None = None

    def new_lane(self) -> PoolLane:
        async def recover(_: TopicPartition) -> Committed | None:
            return None

        return PoolLane(
            self.dispatcher,
            make_meter(),
            prefix="p.",
            express_topic=EXPRESS.topic,
            partitions=lambda _: 4,
            recover=recover,
        )

    async def open(self) -> Mapping[TopicPartition, int]:
        wanted = await self.lane.open(self.broker.committed)
        self.running = asyncio.ensure_future(self.lane.run(self.broker))  # type: ignore[arg-type]
        return wanted

    async def end_run(self) -> None:
        if self.running is not None:
            self.running.cancel()
            await asyncio.gather(self.running, return_exceptions=True)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    yield made
    made.broker.held.set()
    await made.end_run()
    await made.lane.close()


async def test_a_first_start_begins_at_zero_and_says_so_at_once(bench: Bench) -> None:
    assert await bench.open() == {POOL: 0, EXPRESS: 0}
    await until(lambda: bench.broker.commits == 1)
    assert bench.broker.counts() == FinishedCounts(0, 0)


async def test_a_record_is_run_and_its_result_and_offset_are_one_commit(bench: Bench) -> None:
    await bench.open()
    bench.lane.offer(POOL, [record(0), record(1)])
    bench.lane.offer(EXPRESS, [record(5)])
    await bench.backend.end("r5")
    await until(lambda: bench.broker.records == 1)
    assert bench.broker.counts(EXPRESS) == FinishedCounts(1, 6)
    assert bench.broker.counts() == FinishedCounts(0, 2, (0, 1))


async def test_outcomes_that_come_during_a_commit_share_the_next_one(bench: Bench) -> None:
    await bench.open()
    await until(lambda: bench.broker.commits == 1)
    bench.broker.held.clear()
    bench.lane.offer(EXPRESS, [record(n, priority="realtime") for n in range(4)])
    for number in range(4):
        await bench.backend.end(f"r{number}")
    bench.broker.held.set()
    await until(lambda: bench.broker.records == 4)
    assert bench.broker.commits == 3


async def test_a_restart_runs_only_what_is_unfinished(bench: Bench) -> None:
    said = encode_finished(FinishedCounts(finished=7, frontier=10, unfinished=(4, 8)))
    bench.broker.committed[POOL] = Committed(4, said)
    assert (await bench.open())[POOL] == 4
    bench.lane.offer(POOL, [record(n) for n in (4, 5, 6, 7, 8, 9)])
    await bench.backend.end("r4")
    await bench.backend.end("r8")
    await until(lambda: bench.broker.counts() == FinishedCounts(9, 10))
    assert bench.backend.order == ["r4", "r8"]


@pytest.mark.parametrize("applied", [True, False])
async def test_after_doubt_finished_work_is_written_once_and_not_run_again(
    bench: Bench, applied: bool
) -> None:
    await bench.open()
    await until(lambda: bench.broker.commits == 1)
    bench.lane.offer(POOL, [record(0), record(1)])
    bench.broker.doubt = applied
    await bench.backend.end("r0")
    assert bench.running is not None
    with pytest.raises(OutcomeUnknown):
        await bench.running
    assert await bench.open() == {POOL: 2, EXPRESS: 0}
    await bench.backend.end("r1")
    await until(lambda: bench.broker.counts() == FinishedCounts(2, 2))
    assert bench.broker.records == 2
    assert bench.backend.order == ["r0", "r1"]


async def test_when_somebody_else_went_on_meanwhile_their_word_counts(bench: Bench) -> None:
    await bench.open()
    await until(lambda: bench.broker.commits == 1)
    bench.lane.offer(POOL, [record(0), record(1)])
    bench.broker.doubt = False
    await bench.backend.end("r0")
    assert bench.running is not None
    await asyncio.gather(bench.running, return_exceptions=True)
    theirs = FinishedCounts(finished=2, frontier=3, unfinished=(1,))
    bench.broker.committed[POOL] = Committed(1, encode_finished(theirs))
    assert (await bench.open())[POOL] == 1
    assert bench.backend.cancelled == ["r1"]
    bench.lane.offer(POOL, [record(1), record(2)])
    await bench.backend.end("r1")
    await until(lambda: bench.broker.counts() == FinishedCounts(3, 3))


async def test_a_bad_record_becomes_a_dead_letter_and_its_neighbours_run(bench: Bench) -> None:
    await bench.open()
    bench.lane.offer(POOL, [PoolRecord(0, b"junk"), Undecodable(1, 0, "no such codec"), record(2)])
    await bench.backend.end("r2")
    await until(lambda: bench.broker.counts() == FinishedCounts(3, 3, dead=2))


async def test_no_more_is_read_than_the_ledger_has_room_for(bench: Bench) -> None:
    await bench.open()
    assert bench.lane.room(POOL)
    bench.lane.offer(POOL, [record(n) for n in range(IN_FLIGHT_MAX + 3)])
    assert not bench.lane.room(POOL)
    assert bench.lane.room(EXPRESS)
    await until(lambda: bench.dispatcher.queued == IN_FLIGHT_MAX - 1)
    await bench.backend.end("r0")
    await until(lambda: bench.broker.counts().finished == 1)
    assert bench.broker.counts().frontier == IN_FLIGHT_MAX
    await until(lambda: bench.dispatcher.queued == IN_FLIGHT_MAX - 1)


async def test_no_more_is_read_than_memory_is_given(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "IN_FLIGHT_BYTES_MAX", 1000)
    await bench.open()
    bench.lane.offer(POOL, [record(0, payload={"prompt": "x" * 1000})])
    assert not bench.lane.room(POOL)
    await bench.backend.end("r0")
    await until(lambda: bench.lane.room(POOL))


async def test_keys_and_headers_take_memory_as_values_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "IN_FLIGHT_BYTES_MAX", 1000)
    await bench.open()
    bench.lane.offer(POOL, [replace(record(0), key=b"k" * 1000)])
    assert not bench.lane.room(POOL)


async def test_draining_waits_for_what_runs_and_leaves_what_waits(bench: Bench) -> None:
    await bench.open()
    bench.lane.offer(POOL, [record(n) for n in range(3)])
    await until(lambda: "r0" in bench.backend.calls)
    bench.dispatcher.stop_starting()
    drain = asyncio.ensure_future(bench.lane.drain())
    await settle()
    assert not drain.done()
    await bench.backend.end("r0")
    await asyncio.wait_for(drain, 5)
    assert bench.broker.counts() == FinishedCounts(1, 3, (1, 2))
    assert bench.backend.order == ["r0"]


async def test_losing_the_partition_cancels_its_work(bench: Bench) -> None:
    await bench.open()
    bench.lane.offer(POOL, [record(0), record(1)])
    await until(lambda: "r0" in bench.backend.calls)
    await bench.end_run()
    await bench.lane.close()
    assert bench.backend.cancelled == ["r0"]
    assert bench.dispatcher.queued == 0
    assert bench.broker.counts().finished == 0


async def test_an_idle_lane_commits_again_before_its_offsets_expire(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "IDLE_COMMIT_S", 0.01)
    await bench.open()
    await until(lambda: bench.broker.commits >= 3)
    assert bench.broker.records == 0


async def test_offsets_of_another_program_are_not_taken_for_ours(bench: Bench) -> None:
    bench.broker.committed[POOL] = Committed(17, "")
    with pytest.raises(OffsetsLost, match="offsets accept"):
        await bench.open()
