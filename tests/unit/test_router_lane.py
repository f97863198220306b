"""One partition of a router: what it believes follows what was committed, also after doubt."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from schemas.errors import OutcomeUnknown
from schemas.message import encode
from schemas.metadata import RouterCounts, decode_router
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from streams.policy import View, policy
from streams.router import lane as lanes
from streams.router.bindings import Bindings
from streams.router.lane import RouterLane
from streams.router.outlook import Outlook
from streams.router.window import DuplicateWindow
from tests.fleet import node, snapshot
from tests.unit.test_router_batch import Raw, request
from tests.waiting import until

NAMES = TopicNames("t.")
REQUESTS, RETRY = TopicPartition(NAMES.requests, 0), TopicPartition(NAMES.retry, 0)
NOTHING = {REQUESTS: Committed(0, ""), RETRY: Committed(0, "")}


class FakeProducer:
    """Keeps what it is told to commit; in doubt it does not say whether it did."""

    def __init__(self, *, doubtful: bool = False) -> None:
        self.commits: list[Mapping[TopicPartition, Committed]] = []
        self._doubtful = doubtful

    async def commit(self, outputs: Outputs, offsets: Mapping[TopicPartition, Committed]) -> None:
        del outputs
        self.commits.append(dict(offsets))
        if self._doubtful:
            raise OutcomeUnknown("no answer")

    @property
    def last(self) -> RouterCounts:
        return decode_router(self.commits[-1][REQUESTS].metadata)


@pytest.fixture
def outlook() -> Outlook:
    made = Outlook(View(DEFAULT_POOLS, "router", {"gpu": 1, "cpu": 1, "npu": 1}))
    told = snapshot([node("gpu-1")])
    made.hear(told, encode(told), time.monotonic())
    return made


@pytest.fixture
def lane(outlook: Outlook, monkeypatch: pytest.MonkeyPatch) -> RouterLane:
    async def nothing(*_: object) -> tuple[DuplicateWindow, Bindings]:
        return DuplicateWindow(), Bindings()

    monkeypatch.setattr(lanes, "read_memory", nothing)
    return RouterLane(
        0,
        router="router",
        connection={},
        names=NAMES,
        pools=DEFAULT_POOLS,
        policy=policy("overflow"),
        outlook=outlook,
        widths={NAMES.results: 1, NAMES.dead_letter: 1},
        sequence=itertools.count(1),
        on_committed=lambda *_: None,
    )


def record(offset: int, value: bytes) -> Raw:
    """Return a record of this moment: lanes read the clock."""
    return Raw(offset, value, timestamp=int(time.time() * 1000))


async def run_until_committed(lane: RouterLane, producer: FakeProducer) -> None:
    """Run the lane until it has nothing left to do, or doubt ends it."""
    work = asyncio.ensure_future(lane.run(producer))  # type: ignore[arg-type]
    drained = asyncio.ensure_future(lane.drain())
    await asyncio.wait({work, drained}, return_when=asyncio.FIRST_COMPLETED)
    for task in (work, drained):
        task.cancel()
    await asyncio.gather(work, drained, return_exceptions=True)


async def test_each_record_becomes_one_thing_in_the_counts(lane: RouterLane) -> None:
    await lane.open(NOTHING)
    lane.offer(REQUESTS, [record(0, request("a")), record(1, request("a")), record(2, b"{")])
    producer = FakeProducer()
    await run_until_committed(lane, producer)
    assert producer.commits[-1][REQUESTS].offset == 3
    assert producer.commits[-1][RETRY].offset == 0
    assert producer.last == RouterCounts({"gpu": (1,)}, consumed=3, dead=1, duplicate=1)


async def test_after_doubt_a_batch_that_was_committed_counts_as_seen(lane: RouterLane) -> None:
    await lane.open(NOTHING)
    lane.offer(REQUESTS, [record(0, request("a"))])
    doubtful = FakeProducer(doubtful=True)
    await run_until_committed(lane, doubtful)
    assert await lane.open(doubtful.commits[-1]) == {REQUESTS: 1, RETRY: 0}
    lane.offer(REQUESTS, [record(1, request("a"))])
    producer = FakeProducer()
    await run_until_committed(lane, producer)
    assert producer.last == RouterCounts({"gpu": (1,)}, consumed=2, duplicate=1)


async def test_after_doubt_a_batch_that_was_not_committed_is_decided_again(
    lane: RouterLane, outlook: Outlook
) -> None:
    await lane.open(NOTHING)
    lane.offer(REQUESTS, [record(0, request("a", conversation_id="c"))])
    await run_until_committed(lane, FakeProducer(doubtful=True))
    assert await lane.open(NOTHING) == {REQUESTS: 0, RETRY: 0}
    assert outlook.look(time.monotonic()).own == ()
    lane.offer(REQUESTS, [record(0, request("a", conversation_id="c"))])
    producer = FakeProducer()
    await run_until_committed(lane, producer)
    assert producer.last == RouterCounts({"gpu": (1,)}, consumed=1)


async def test_a_lane_that_is_closed_leaves_no_routing_of_its_own_behind(
    lane: RouterLane, outlook: Outlook
) -> None:
    await lane.open(NOTHING)
    lane.offer(REQUESTS, [record(0, request("a"))])
    await run_until_committed(lane, FakeProducer(doubtful=True))
    await lane.close()
    assert outlook.look(time.monotonic()).own == ()


async def test_no_more_is_fetched_than_memory_is_given(
    lane: RouterLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUEUED_RECORDS_MAX", 2)
    await lane.open(NOTHING)
    assert lane.room(REQUESTS)
    lane.offer(REQUESTS, [record(n, request(str(n))) for n in range(2)])
    assert not lane.room(REQUESTS)
    assert not lane.room(RETRY)


async def test_large_records_leave_less_room_until_they_are_routed(
    lane: RouterLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "QUEUED_BYTES_MAX", 3000)
    await lane.open(NOTHING)
    lane.offer(REQUESTS, [record(n, request(str(n), blob="x" * 1600)) for n in range(2)])
    assert not lane.room(REQUESTS)
    working = asyncio.ensure_future(lane.run(FakeProducer()))  # type: ignore[arg-type]
    await until(lambda: lane.room(REQUESTS))
    working.cancel()
    await asyncio.wait({working})


async def test_an_idle_lane_commits_again_before_its_offsets_expire(
    lane: RouterLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "IDLE_COMMIT_S", 0.01)
    await lane.open(NOTHING)
    producer = FakeProducer()
    work = asyncio.ensure_future(lane.run(producer))  # type: ignore[arg-type]
    await until(lambda: bool(producer.commits))
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert [each.offset for each in producer.commits[0].values()] == [0, 0]
