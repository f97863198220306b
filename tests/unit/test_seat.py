"""The life of a lane: the order of opening, and what happens after doubt, fencing and loss."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka import seat as seats
from runtime.kafka.counts import HostCounts
from runtime.kafka.offsets import Bounds, Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Decoded
from runtime.kafka.seat import Seat
from schemas.errors import BrokerUnreachable, Fenced, FormatError, OutcomeUnknown
from tests.waiting import until

TP = TopicPartition("requests", 0)
GROUP = "routers"


@dataclass(frozen=True)
class At:
    """A record as far as a seat looks at one."""

    offset: int


class Stage:
    """A seat between fakes that note, in one list, what is asked of them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.committed: Committed | None = Committed(5, "meta")
        self.bounds = Bounds(0, 10)
        self.recovered: Committed | None = None
        self.unreadable: Exception | None = None  # what a lane raises about what is committed
        self.refusals: list[Exception] = []  # what opening a producer raises, one after another
        self.lanes: list[FakeLane] = []
        self.settled = True
        self.counts = HostCounts()
        self.seat = Seat(
            frozenset([TP]),
            group=GROUP,
            offsets=FakeOffsets(self),  # type: ignore[arg-type]
            producer=lambda: FakeProducer(self),  # type: ignore[arg-type, return-value]
            lane=self.new_lane,
            counts=self.counts,
            settled=lambda: self.settled,
            on_change=lambda: self.told.append(f"change to {self.seat.state.split()[0]}"),
        )

    def new_lane(self) -> FakeLane:
        self.lanes.append(FakeLane(self))
        return self.lanes[-1]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.ensure_future(self.seat.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def until_state(self, state: str) -> None:
        await until(lambda: self.seat.state.split()[0] == state, poll_s=0)

    async def until_opened(self, times: int) -> None:
        await until(lambda: self.told.count("change to open") >= times, poll_s=0)


class FakeProducer:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def open(self) -> None:
        self._stage.told.append("fence")
        if self._stage.refusals:
            raise self._stage.refusals.pop(0)

    async def commit(self, outputs: Outputs, offsets: Mapping[TopicPartition, Committed]) -> None:
        assert outputs.records == 0
        self._stage.told.append("commit")
        self._stage.committed = offsets[TP]

    async def close(self) -> None:
        self._stage.told.append("close producer")


class FakeOffsets:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def committed(self, group: str, tps: Iterable[TopicPartition]) -> dict[Any, Any]:
        assert group == GROUP
        await asyncio.sleep(0)
        self._stage.told.append("read offsets")
        return dict.fromkeys(tps, self._stage.committed)

    async def bounds(self, tps: Iterable[TopicPartition]) -> dict[Any, Any]:
        return dict.fromkeys(tps, self._stage.bounds)


class FakeLane:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.has_room = True
        self.offered: list[int] = []
        self.opened_with: list[Mapping[TopicPartition, Committed]] = []
        self.end = asyncio.get_running_loop().create_future()

    async def recover(self, tp: TopicPartition) -> Committed | None:
        self._stage.told.append(f"recover {tp.topic}-{tp.partition}")
        return self._stage.recovered

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        self._stage.told.append("open lane")
        if self._stage.unreadable is not None:
            raise self._stage.unreadable
        self.opened_with.append(committed)
        self.end = asyncio.get_running_loop().create_future()
        return {tp: found.offset for tp, found in committed.items()}

    def room(self, tp: TopicPartition) -> bool:
        assert tp == TP
        return self.has_room

    def offer(self, tp: TopicPartition, records: Sequence[Any]) -> None:
        assert tp == TP
        self.offered += [record.offset for record in records]

    async def run(self, producer: object) -> None:
        assert isinstance(producer, FakeProducer)
        await self.end

    async def close(self) -> None:
        self._stage.told.append("close lane")


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    for pause in ("HEARTBEAT_S", "_RETRY_FIRST_S", "_ACCEPTED_POLL_S", "_SETTLED_POLL_S"):
        monkeypatch.setattr(seats, pause, 0.0)
    return Stage()


async def test_it_fences_then_reads_offsets_then_rebuilds_then_fetches(stage: Stage) -> None:
    async with stage.running():
        assert stage.seat.wanted() == {}
        await stage.until_state("open")
        assert stage.told == ["fence", "read offsets", "open lane", "change to open"]
        assert stage.lanes[0].opened_with == [{TP: Committed(5, "meta")}]
        assert stage.seat.wanted() == {TP: 5}
    assert stage.told[4:] == ["close producer", "close lane", "change to closed"]
    assert stage.seat.wanted() == {}


async def test_a_lane_without_room_wants_nothing_now(stage: Stage) -> None:
    async with stage.running():
        await stage.until_state("open")
        stage.lanes[0].has_room = False
        assert stage.seat.wanted() == {TP: None}


async def test_an_answer_to_an_outdated_question_is_ignored(stage: Stage) -> None:
    async with stage.running():
        await stage.until_state("open")
        stage.seat.deliver(TP, 5, Decoded([At(5), At(7)], 9))  # type: ignore[list-item]
        stage.seat.deliver(TP, 5, Decoded([At(5), At(7)], 9))  # type: ignore[list-item]
        assert stage.lanes[0].offered == [5, 7]
        assert stage.seat.wanted() == {TP: 9}


async def test_markers_alone_move_the_position_and_offer_nothing(stage: Stage) -> None:
    async with stage.running():
        await stage.until_state("open")
        stage.seat.deliver(TP, 5, Decoded([], 6))
        assert stage.lanes[0].offered == []
        assert stage.seat.wanted() == {TP: 6}


async def test_after_an_unknown_outcome_the_same_lane_opens_again_from_the_fence(
    stage: Stage,
) -> None:
    async with stage.running():
        await stage.until_opened(1)
        stage.told.clear()
        stage.committed = Committed(8, "applied")
        stage.lanes[0].end.set_exception(OutcomeUnknown("no answer"))
        await stage.until_opened(1)
        assert stage.told == [
            "close producer",
            "fence",
            "read offsets",
            "open lane",
            "change to open",
        ]
        assert len(stage.lanes) == 1
        assert stage.lanes[0].opened_with[1] == {TP: Committed(8, "applied")}
        assert stage.counts.unknown_outcomes == 1


async def test_after_a_fencing_a_new_lane_opens_once_the_assignment_stands(stage: Stage) -> None:
    async with stage.running():
        await stage.until_opened(1)
        stage.settled = False
        stage.told.clear()
        stage.lanes[0].end.set_exception(Fenced("another owner"))
        await stage.until_state("fenced")
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.told == ["close producer", "close lane", "change to fenced"]
        stage.settled = True
        await stage.until_opened(1)
        assert len(stage.lanes) == 2
        assert stage.counts.fenced == 1


async def test_a_broker_that_is_away_is_waited_for(stage: Stage) -> None:
    stage.refusals = [BrokerUnreachable("nobody answers"), OSError("broken pipe")]
    async with stage.running():
        await stage.until_state("broker-away")
        await stage.until_state("open")
        assert stage.told.count("fence") == 3
        assert len(stage.lanes) == 1


async def test_a_mistake_of_a_lane_ends_the_seat(stage: Stage) -> None:
    async with stage.running() as task:
        await stage.until_state("open")
        stage.lanes[0].end.set_exception(ZeroDivisionError("a bug"))
        with pytest.raises(ZeroDivisionError):
            await task
    assert stage.told[-3:] == ["close producer", "close lane", "change to closed"]


async def test_without_any_commit_a_whole_log_is_a_first_start(stage: Stage) -> None:
    stage.committed = None
    async with stage.running():
        await stage.until_state("open")
        assert stage.lanes[0].opened_with == [{TP: Committed(0, "")}]
        assert stage.counts.first_starts == 1


async def test_without_a_commit_the_roles_own_records_tell(stage: Stage) -> None:
    stage.committed, stage.recovered = None, Committed(3, "rebuilt")
    async with stage.running():
        await stage.until_state("open")
        assert stage.lanes[0].opened_with == [{TP: Committed(3, "rebuilt")}]
        assert stage.counts.first_starts == 0


@pytest.mark.parametrize("metadata", ["", "hello world"])
async def test_an_offset_that_another_program_committed_counts_for_nothing(
    stage: Stage, metadata: str
) -> None:
    stage.committed, stage.recovered = Committed(9, metadata), Committed(3, "rebuilt")
    async with stage.running():
        await stage.until_state("open")
        assert stage.committed == Committed(3, "rebuilt")  # at once, for whoever reads the counts
        assert stage.lanes[0].opened_with == [{TP: Committed(3, "rebuilt")}]


async def test_counts_that_cannot_be_read_are_waited_out(stage: Stage) -> None:
    stage.unreadable = FormatError("offset metadata has version 9")
    async with stage.running():
        await stage.until_state("offsets-lost")
        assert "version 9" in stage.seat.state
        for _ in range(20):
            await asyncio.sleep(0)
        stage.unreadable, stage.committed = None, Committed(6, "meta")
        await stage.until_state("open")


@pytest.mark.parametrize(
    ("committed", "bounds"),
    [
        (None, Bounds(4, 10)),  # the beginning is gone and nothing tells where to go on
        (Committed(3, "meta"), Bounds(4, 10)),  # records were deleted before they were read
        (Committed(11, "meta"), Bounds(0, 10)),  # the topic is another one now
        (Committed(5, ""), Bounds(0, 10)),  # Kafka's own tools committed it: it has no counts
    ],
)
async def test_offsets_that_do_not_fit_the_log_wait_for_someone_to_accept(
    stage: Stage, committed: Committed | None, bounds: Bounds
) -> None:
    stage.committed, stage.bounds = committed, bounds
    async with stage.running():
        await stage.until_state("offsets-lost")
        for _ in range(20):
            await asyncio.sleep(0)
        assert stage.seat.state.startswith("offsets-lost")
        assert "overspill offsets accept" in stage.seat.state
        assert stage.told.count("fence") == 1  # whoever accepts must not be fenced
        stage.committed = Committed(bounds.begin, "meta")
        await stage.until_state("open")


async def test_an_offset_the_log_no_longer_has_stops_the_lane(stage: Stage) -> None:
    async with stage.running():
        await stage.until_state("open")
        stage.seat.out_of_range(TP, 4)  # outdated
        await asyncio.sleep(0)
        assert stage.seat.state == "open"
        stage.seat.out_of_range(TP, 5)
        await stage.until_state("offsets-lost")
        assert stage.seat.wanted() == {}
