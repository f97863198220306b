"""The life of one lane while its partition is ours.

Owns the one order that is safe: fence the predecessor, then read the committed offsets, then let
the role rebuild, then fetch. After any doubt it begins again from the fence. One task runs it, so
nothing else opens the same transactional id in this process. Knows nothing of groups or of other
lanes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS
from runtime.kafka.counts import HostCounts
from runtime.kafka.lane import Lane
from runtime.kafka.membership import HEARTBEAT_S
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outage import Outage
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Decoded
from runtime.kafka.transactions import FencedProducer
from schemas.errors import BrokerUnreachable, Fenced, FormatError, OffsetsLost, OutcomeUnknown
from schemas.metadata import is_foreign

log = logging.getLogger(__name__)

_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 2.0  # pauses between tries to open while a broker is away
_ACCEPTED_POLL_S = 1.0  # how soon `overspill offsets accept` is noticed
_SETTLED_POLL_S = 0.1
_AWAY = (BrokerUnreachable, *TRANSPORT_ERRORS)


class Seat:
    """One lane, its offsets and its producer.

    Attributes:
        tps: the partitions of the lane: the leader's and its followers'.
        state: "open", or why not.
    """

    def __init__(
        self,
        tps: frozenset[TopicPartition],
        *,
        group: str,
        offsets: OffsetReader,
        producer: Callable[[], FencedProducer],
        lane: Callable[[], Lane],
        counts: HostCounts,
        settled: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            tps: partitions that belong together.
            group: whose committed offsets count.
            offsets: reads them.
            producer: makes a producer of this lane's transactional id.
            lane: makes the role's lane.
            counts: what to count in.
            settled: tells whether the group's assignment stands.
            on_change: called when the lane opened or ended.
        """
        self.tps = tps
        self.state = "opening"
        self._group = group
        self._offsets = offsets
        self._new_producer = producer
        self._new_lane = lane
        self._lane: Lane | None = None
        self._counts = counts
        self._settled = settled
        self._on_change = on_change
        self._positions: dict[TopicPartition, int] = {}
        self._lost: asyncio.Future[None] | None = None

    @property
    def lane(self) -> Lane | None:
        """The lane while it runs."""
        return self._lane if self.state == "open" else None

    def wanted(self) -> Mapping[TopicPartition, int | None]:
        """Return where to fetch from, for each partition; None where the lane has no room."""
        lane = self._lane
        if lane is None:
            return {}
        return {tp: at if lane.room(tp) else None for tp, at in self._positions.items()}

    def deliver(self, tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        """Hand records to the lane, unless the lane has moved on since they were asked for."""
        if self._lane is None or self._positions.get(tp) != asked:
            return
        self._positions[tp] = decoded.next_offset
        if decoded.records:
            self._lane.offer(tp, decoded.records)

    def out_of_range(self, tp: TopicPartition, asked: int) -> None:
        """Stop: records were deleted before they were read, or the topic is another one now."""
        if self._lost is not None and not self._lost.done() and self._positions.get(tp) == asked:
            self._lost.set_exception(_lost(tp, f"offset {asked} is not in the log"))

    async def run(self) -> None:
        """Hold the partition until cancelled; raise what the lane raises by mistake."""
        try:
            while True:
                try:
                    await self._serve()
                except OutcomeUnknown as doubt:
                    self._counts.unknown_outcomes += 1
                    log.warning("%s", doubt)
                except Fenced as fenced:
                    self._counts.fenced += 1
                    log.warning("%s", fenced)
                    await self._end_lane("fenced")
                    await self._ownership_confirmed()
                except OffsetsLost as lost:
                    log.error("%s", lost)  # noqa: TRY400  the line says all; no trace is needed
                    await self._end_lane(f"offsets-lost ({lost})")
                    await self._offsets_changed()
        finally:
            await self._end_lane("closed")

    async def _serve(self) -> None:
        producer, positions = await self._opened()
        try:
            self._lost = asyncio.get_running_loop().create_future()
            self._positions = dict(positions)
            self.state = "open"
            self._on_change()
            await self._work(producer, self._lost)
        finally:
            self._positions = {}
            self.state = "opening"
            await producer.close()

    async def _opened(self) -> tuple[FencedProducer, Mapping[TopicPartition, int]]:
        """Open producer and lane; a broker that is away is waited for."""
        pause = _RETRY_FIRST_S
        outage = Outage(log, f"opening {_names(self.tps)}")
        while True:
            producer = self._new_producer()
            lane = self._lane = self._lane or self._new_lane()
            try:
                await producer.open()
                starts, rebuilt = await self._starts(lane)
                if rebuilt:
                    # At once: until then whoever reads the counts finds none, or cannot read them.
                    await producer.commit(Outputs(), rebuilt)
                positions = await lane.open(starts)
            except _AWAY as error:
                outage.failed(error)
                self.state = "broker-away"
                await producer.close()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_MOST_S)
            except FormatError as error:
                await producer.close()
                raise OffsetsLost(
                    f"offsets of {_names(self.tps)} cannot be read: {error}"
                ) from error
            except BaseException:
                await producer.close()
                raise
            else:
                outage.over()
                return producer, positions

    async def _starts(
        self, lane: Lane
    ) -> tuple[dict[TopicPartition, Committed], dict[TopicPartition, Committed]]:
        """Return where each partition goes on, and of these what is not committed so.

        Raises:
            OffsetsLost: nothing tells, or what tells does not fit the log. Starting at its
                beginning instead would do all of it again; at its end, lose what is there.
        """
        found = await self._offsets.committed(self._group, self.tps)
        bounds = await self._offsets.bounds(self.tps)
        starts: dict[TopicPartition, Committed] = {}
        rebuilt: dict[TopicPartition, Committed] = {}
        for tp, committed in found.items():
            begin, end = bounds[tp]
            # An offset without counts is no word of ours: it may skip records, or repeat them.
            ours = committed is not None and not is_foreign(committed.metadata)
            start = committed if ours else await lane.recover(tp)
            if start is None:
                if committed is not None and committed.offset > 0:
                    raise _lost(tp, f"another program committed {committed.offset}, without counts")
                if begin > 0:
                    raise _lost(tp, f"nothing is committed and the log begins at {begin}")
                self._counts.first_starts += 1
                start = Committed(0, "")
            if not begin <= start.offset <= end:
                raise _lost(tp, f"offset {start.offset} is not in the log ({begin} to {end})")
            starts[tp] = start
            if not ours and start.metadata:
                rebuilt[tp] = start
        return starts, rebuilt

    async def _work(self, producer: FencedProducer, lost: asyncio.Future[None]) -> None:
        assert self._lane is not None  # noqa: S101  opened above
        work = asyncio.ensure_future(self._lane.run(producer))
        try:
            await asyncio.wait({work, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            await asyncio.wait({work})
        if lost.done():
            lost.result()
        work.result()
        raise RuntimeError(f"the lane of {_names(self.tps)} returned: a bug in its role")

    async def _end_lane(self, state: str) -> None:
        self.state = state
        lane, self._lane = self._lane, None
        if lane is not None:
            await lane.close()
            self._on_change()

    async def _ownership_confirmed(self) -> None:
        """Wait until the group had time to tell that the partition is no longer ours.

        Opening at once would fence the rightful owner, and it us, in turns.
        """
        await asyncio.sleep(2 * HEARTBEAT_S)
        while not self._settled():  # noqa: ASYNC110  asked rarely; an event would tie us to groups
            await asyncio.sleep(_SETTLED_POLL_S)

    async def _offsets_changed(self) -> None:
        """Wait until someone has committed an offset for these partitions."""
        before: Mapping[TopicPartition, Committed | None] | None = None
        outage = Outage(log, f"reading the offsets of {_names(self.tps)}")
        while True:
            try:
                now = await self._offsets.committed(self._group, self.tps)
            except _AWAY as error:
                outage.failed(error)
            else:
                outage.over()
                if before is not None and now != before:
                    return
                before = now
            await asyncio.sleep(_ACCEPTED_POLL_S)


def _lost(tp: TopicPartition, why: str) -> OffsetsLost:
    return OffsetsLost(
        f"offsets of {tp.topic}-{tp.partition} are lost: {why}; look at the data, then run "
        "`overspill offsets accept GROUP --at earliest|latest`"
    )


def _names(tps: frozenset[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(tps))
