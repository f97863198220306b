"""One pool partition with its express twin: records in, outcomes out, in transactions of its own.

Owns the ledgers and the outcomes that are not yet committed. It does not know how work is run (the
dispatcher does) nor how partitions come and go (the lane host does).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiokafka.structs import TopicPartition

from executors.batch import Batch, make_batch, take
from executors.dispatcher import Dispatcher
from executors.ledger import Done, Ledger
from executors.meter import Meter
from executors.outcome import Outcome, rejected
from executors.work import Source, read_work
from runtime.kafka.lane import IDLE_COMMIT_S
from runtime.kafka.offsets import Committed
from runtime.kafka.records import Received, Undecodable
from runtime.kafka.transactions import FencedProducer
from schemas.errors import OffsetsLost, RecordRejected
from schemas.headers import header_bytes
from schemas.metadata import FinishedCounts, decode_finished
from schemas.outcomes import DeadLetterCategory
from schemas.topics import MIB

log = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX = 8 * MIB
"""Records of one topic partition in memory: eight of the largest requests, thousands of usual."""
ADMIT_AT_ONCE = 50
"""Records parsed without a pause: about 5 ms, so that commits and heartbeats are not held up."""


class Intake:
    """What was read of one topic partition: its ledger, and the records that it has no room for."""

    def __init__(self, restored: FinishedCounts) -> None:
        self.ledger = Ledger(restored)
        self._waiting: deque[Received] = deque()
        self._sizes: dict[int, int] = {}
        self._bytes = 0

    @property
    def room(self) -> bool:
        """Return whether to read more."""
        ledger = self.ledger
        has_room = not self._waiting and ledger.has_room_for(ledger.next_wanted)
        return has_room and self._bytes < IN_FLIGHT_BYTES_MAX

    @property
    def next_wanted(self) -> int:
        """Return the lowest offset that was not read."""
        return self._waiting[-1].offset + 1 if self._waiting else self.ledger.next_wanted

    def put(self, records: Sequence[Received]) -> None:
        """Take records in order."""
        self._waiting.extend(records)

    def next_record(self) -> Received | None:
        """Return the next record to run, entered in the ledger; None for want of one or of room."""
        while self._waiting and self.ledger.has_room_for(self._waiting[0].offset):
            record = self._waiting.popleft()
            if self.ledger.enter(record.offset):
                size = _size(record)
                self._sizes[record.offset] = size
                self._bytes += size
                return record
        return None

    def finish(self, done: Done) -> None:
        """Take note that these records are finished and committed."""
        self.ledger.finish(*done)
        self._bytes -= sum(self._sizes.pop(offset) for offset in done.offsets)


class PoolLane:
    """The lane of one pool partition: what `runtime.kafka.lanes.Lane` asks for."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        meter: Meter,
        *,
        prefix: str,
        express_topic: str,
        partitions: Callable[[str], int],
        recover: Callable[[TopicPartition], Awaitable[Committed | None]],
        tell: Callable[[Outcome, float], None] | None = None,
    ) -> None:
        """Prepare; `tell` hears of each outcome when, in epoch ms, it was seen to be committed."""
        self._dispatcher = dispatcher
        self._meter = meter
        self._prefix = prefix
        self._express_topic = express_topic
        self._partitions = partitions
        self._recover = recover
        self._tell = tell
        self._intakes: dict[TopicPartition, Intake] = {}
        self._committed: dict[TopicPartition, Committed] = {}
        self._pending: deque[Outcome] = deque()
        self._attempted: Batch | None = None
        self._admitting: set[TopicPartition] = set()
        self._error: BaseException | None = None
        self._closed = False
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()

    async def recover(self, tp: TopicPartition) -> Committed | None:
        """Return the offset that this partition's last written record tells; None without one."""
        return await self._recover(tp)

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        """Take up the partition where the ledgers say, or go on after a doubtful commit."""
        truth = dict(committed)
        attempted, self._attempted = self._attempted, None
        if attempted is not None and truth == attempted.offsets:
            self._settle(attempted)
        elif attempted is not None:
            self._pending.extendleft(reversed(attempted.outcomes))
        if truth != self._committed or not self._intakes:
            # First, or somebody else has worked here meanwhile: what is in memory is worth nothing.
            await self._forget()
            self._intakes = {tp: Intake(_restored(tp, said)) for tp, said in truth.items()}
            self._committed = truth
        return {tp: intake.next_wanted for tp, intake in self._intakes.items()}

    def room(self, tp: TopicPartition) -> bool:
        """Return whether more of this topic partition may be read."""
        return self._intakes[tp].room

    def offer(self, tp: TopicPartition, records: Sequence[Received]) -> None:
        """Take records that were read; those beyond the ledger's room wait."""
        self._intakes[tp].put(records)
        self._admit(tp)

    async def run(self, producer: FencedProducer) -> None:
        """Write outcomes as they come, a transaction for all that have come meanwhile."""
        # The first commit says that this partition was begun, before anything depends on it.
        idle_s = 0.0 if any(not said.metadata for said in self._committed.values()) else None
        while True:
            await self._outcomes(IDLE_COMMIT_S if idle_s is None else idle_s)
            idle_s = None
            ledgers = {tp: intake.ledger for tp, intake in self._intakes.items()}
            outcomes = take(self._pending)
            batch = make_batch(outcomes, ledgers, self._prefix, self._partitions)
            for _ in outcomes:
                self._pending.popleft()
            self._attempted = batch
            started = time.perf_counter()
            await producer.commit(batch.outputs, batch.offsets)
            self._meter.committed(time.perf_counter() - started)
            self._attempted = None
            self._settle(batch)

    async def drain(self) -> None:
        """Return when what is in slots has ended and is committed; the rest stays unfinished."""
        while self._pending or self._attempted is not None or self._dispatcher.running(self):
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Cancel what runs and forget the rest."""
        self._closed = True
        await self._forget()

    def finish(self, outcome: Outcome) -> None:
        """Take an outcome, to be written with the next transaction."""
        if self._closed:
            self._dispatcher.written(outcome.size)
            return
        self._pending.append(outcome)
        self._wake.set()

    def left_slot(self, error: BaseException | None) -> None:
        """Take note that a run has ended; an error here means that its work has no outcome."""
        self._progress.set()
        if error is not None:
            self._error = error
            self._wake.set()

    async def _outcomes(self, within_s: float) -> None:
        """Return when there are outcomes to write, or after so long without."""
        timer = asyncio.get_running_loop().call_later(within_s, self._wake.set)
        try:
            if not self._pending and self._error is None:
                self._wake.clear()
                await self._wake.wait()
        finally:
            timer.cancel()
        if self._error is not None:
            # Going on would leave that record unfinished for ever, its lag standing above zero.
            raise self._error

    def _admit(self, tp: TopicPartition) -> None:
        self._admitting.discard(tp)
        intake = self._intakes.get(tp)
        if intake is None:
            return
        for _ in range(ADMIT_AT_ONCE):
            record = intake.next_record()
            if record is None:
                return
            self._begin(Source(tp.topic, tp.partition, record.offset), record)
        if tp not in self._admitting:
            self._admitting.add(tp)
            asyncio.get_running_loop().call_soon(self._admit, tp)

    def _begin(self, source: Source, record: Received) -> None:
        if isinstance(record, Undecodable):
            undecodable = RecordRejected(DeadLetterCategory.UNDECODABLE, record.why)
            self._reject(source, None, None, (), undecodable)
            return
        key, value, headers = record.key, record.value, record.headers
        express = source.topic == self._express_topic
        try:
            work = read_work(source, key, value, headers, express=express)
        except RecordRejected as rejection:
            self._reject(source, key, value, headers, rejection)
        except Exception:
            # One record must not stop its partition, whatever it is that we did not think of.
            log.exception("cannot read %s", source)
            internal = RecordRejected(DeadLetterCategory.INTERNAL, "a node cannot read the record")
            self._reject(source, key, value, headers, internal)
        else:
            self._dispatcher.submit(work, self)

    def _reject(
        self,
        source: Source,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        rejection: RecordRejected,
    ) -> None:
        self._meter.rejected(rejection.category)
        self._dispatcher.deliver(
            rejected(source, key, value, headers, rejection, time.time() * 1000), self
        )

    def _settle(self, batch: Batch) -> None:
        self._committed = batch.offsets
        for tp, done in batch.done().items():
            self._intakes[tp].finish(done)
        self._dispatcher.written(sum(outcome.size for outcome in batch.outcomes))
        if self._tell is not None:
            now_ms = time.time() * 1000
            for outcome in batch.outcomes:
                self._tell(outcome, now_ms)
        for tp in self._intakes:
            self._admit(tp)
        self._progress.set()

    async def _forget(self) -> None:
        await self._dispatcher.withdraw(self)
        if self._attempted is not None:
            self._pending.extend(self._attempted.outcomes)
            self._attempted = None
        self._dispatcher.written(sum(outcome.size for outcome in self._pending))
        self._pending.clear()
        self._intakes = {}


def _size(record: Received) -> int:
    return len(record.key or b"") + len(record.value or b"") + header_bytes(record.headers)


def _restored(tp: TopicPartition, committed: Committed) -> FinishedCounts:
    if committed.metadata:
        return decode_finished(committed.metadata)
    if committed.offset == 0:
        return FinishedCounts(finished=0, frontier=0)
    raise OffsetsLost(
        f"{tp.topic}-{tp.partition} has a committed offset without counts: another program "
        "committed it; run `overspill offsets accept`"
    )
