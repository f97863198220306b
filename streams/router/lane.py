"""One input partition of a router: `requests` i and `retry` i, with what only their owner may hold.

Owns the order of things: take, plan, commit, and only then believe it. After an outcome that nobody
confirmed the committed offset decides whether the plan happened. Knows no rule of the policy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from runtime.crash import CrashPoint, reached
from runtime.kafka.connection import Connection
from runtime.kafka.lane import IDLE_COMMIT_S
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Received
from runtime.kafka.transactions import FencedProducer
from schemas.decisions import DecisionsRecord, ViewInputs, encode_decisions
from schemas.errors import OverspillError
from schemas.metadata import RouterCounts, decode_router, encode_router
from schemas.pools import Pool
from schemas.topics import TopicNames
from streams.router.batch import Batch
from streams.router.bindings import Bindings
from streams.router.deltas import Delta
from streams.router.desk import Decider, Desk, pool_topic_names
from streams.router.outlook import Outlook
from streams.router.plan import REQUESTS, RETRY, Plan
from streams.router.queue import Queue
from streams.router.rebuild import find_offset, read_memory
from streams.router.window import DuplicateWindow

QUEUED_RECORDS_MAX = 4_000
"""Four transactions ahead: fetching goes on while one commits, and memory stays bounded."""

QUEUED_BYTES_MAX = 8 * 1024 * 1024
"""Two of the largest transactions; a fetch may exceed it by its own size, 1 MiB."""

OnCommitted = Callable[[Plan, float], None]
"""Called with each committed plan and the seconds from its first decision to its commit."""


class Attempt(NamedTuple):
    """A transaction whose end is not known yet."""

    plan: Plan
    delta: Delta
    inputs: ViewInputs


class RouterLane:
    """Routes partition `number` of `requests` and `retry`."""

    def __init__(
        self,
        number: int,
        *,
        router: str,
        connection: Connection,
        names: TopicNames,
        pools: tuple[Pool, ...],
        policy: Decider,
        outlook: Outlook,
        widths: Mapping[str, int],
        sequence: Iterator[int],
        on_committed: OnCommitted,
    ) -> None:
        self._number = number
        self._router = router
        self._connection = connection
        self._names = names
        self._pools = pools
        self._policy = policy
        self._outlook = outlook
        self._widths = widths
        self._sequence = sequence
        self._on_committed = on_committed
        self._sources = (
            TopicPartition(names.requests, number),
            TopicPartition(names.retry, number),
        )
        self._decisions = TopicPartition(names.decisions, number)
        self._counts = (RouterCounts({}), RouterCounts({}))
        self._offsets = [0, 0]
        self._desk: Desk | None = None
        self._queue = Queue()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ahead: Batch | None = None
        self._attempt: Attempt | None = None

    async def recover(self, partition: TopicPartition) -> Committed | None:
        """Return the offset and counts that `decisions` tell, for an offset that was lost."""
        return await find_offset(self._connection, self._decisions, self._sources.index(partition))

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        """Start from what is committed; return the offsets to fetch from."""
        truth = [committed[source] for source in self._sources]
        self._counts = _counts(truth[REQUESTS]), _counts(truth[RETRY])
        self._offsets = [at.offset for at in truth]
        self._queue = Queue()
        self._ahead = None
        self._idle.set()
        if self._attempt is not None:
            attempt, self._attempt = self._attempt, None
            if any(0 <= attempt.plan.next[s] <= truth[s].offset for s in (REQUESTS, RETRY)):
                self._settle(attempt.plan, attempt.inputs, attempt.delta.at_s)
            else:
                self._take_back(attempt)
        if self._desk is None:
            now_ms = int(time.time() * 1000)
            self._desk = self._make_desk(
                *await read_memory(self._connection, self._decisions, now_ms)
            )
        return dict(zip(self._sources, self._offsets, strict=True))

    def room(self, partition: TopicPartition) -> bool:
        """Return whether more records of a source should be fetched."""
        del partition  # both sources share one queue
        return self._queue.records < QUEUED_RECORDS_MAX and self._queue.bytes < QUEUED_BYTES_MAX

    def offer(self, partition: TopicPartition, records: Sequence[Received]) -> None:
        """Queue fetched records."""
        self._queue.offer(self._sources.index(partition), records)
        self._idle.clear()
        self._arrived.set()

    async def run(self, producer: FencedProducer) -> None:
        """Route what arrives, a transaction at a time, until cancelled."""
        while True:
            try:
                await asyncio.wait_for(self._arrived.wait(), IDLE_COMMIT_S)
            except asyncio.TimeoutError:
                await producer.commit(Outputs(), self._commits())
                continue
            self._arrived.clear()
            while self._queue.records or self._ahead:
                await self._route_batch(producer)
            self._idle.set()

    async def drain(self) -> None:
        """Return when everything queued is committed."""
        await self._idle.wait()

    async def close(self) -> None:
        """Forget a batch in flight: the partition's next owner reads what came of it."""
        if self._attempt is not None:
            self._outlook.deltas.take_back(self._attempt.delta)
            self._attempt = None

    async def _route_batch(self, producer: FencedProducer) -> None:
        assert self._desk is not None  # noqa: S101  `open` comes before `run`
        batch = self._ahead or await self._read(self._desk)
        self._ahead = None
        plan = batch.plan
        now_s, now_ms = time.monotonic(), int(time.time() * 1000)
        # From here to the next await no other lane runs: decisions replay in `sequence` order.
        inputs, sequence = self._outlook.look(now_s), next(self._sequence)
        mode, threshold = self._outlook.view.mode, self._outlook.view.threshold
        batch.decide(now_ms)
        reached(CrashPoint.ROUTER_AFTER_DECIDE)
        delta = Delta(self._number, (plan.next[REQUESTS], plan.next[RETRY]), plan.routed, now_s)
        self._outlook.deltas.add(delta)
        self._attempt = Attempt(plan, delta, inputs)
        for part in batch.parts:
            await asyncio.sleep(0)
            batch.write(part)
        batch.count()
        self._advance(plan)
        touched = [counts if plan.next[s] >= 0 else None for s, counts in enumerate(self._counts)]
        record = DecisionsRecord(
            router=self._router,
            sequence=sequence,
            partition=self._number,
            first=(plan.first[REQUESTS], plan.first[RETRY]),
            next=(plan.next[REQUESTS], plan.next[RETRY]),
            counts=(touched[REQUESTS], touched[RETRY]),
            policy=self._policy.name,
            mode=mode.value,
            threshold=threshold,
            now_ms=now_ms,
            view=inputs,
            rows=plan.rows,
            bound=self._desk.bindings.state(len(plan.rows), now_ms),
        )
        encoded = encode_decisions(record)
        plan.outputs.add(self._names.decisions, self._number, None, encoded, [], now_ms)
        commit = asyncio.ensure_future(producer.commit(plan.outputs, self._commits()))
        try:
            if self._queue.records:  # the broker takes its time: read the next batch meanwhile
                self._ahead = await self._read(self._desk)
        finally:
            await commit
        self._attempt = None
        self._settle(plan, inputs, now_s)

    async def _read(self, desk: Desk) -> Batch:
        """Return the next batch, read but not decided."""
        runs = self._queue.take()
        reached(CrashPoint.ROUTER_AFTER_POLL)
        batch = Batch(desk, runs, self._counts)
        for part in batch.parts:
            batch.read(part)
            await asyncio.sleep(0)
        return batch

    def _advance(self, plan: Plan) -> None:
        """Move offsets and counts to what the plan leaves; `open` corrects them if it fails."""
        after = tuple(headcount.counts() for headcount in plan.headcounts)
        for source, counts in enumerate(after):
            if not counts.balanced:
                raise OverspillError(
                    f"counts of {self._sources[source]} do not add up: {counts}; please report this"
                )
            if plan.next[source] >= 0:
                self._offsets[source] = plan.next[source]
        self._counts = after[REQUESTS], after[RETRY]

    def _commits(self) -> dict[TopicPartition, Committed]:
        return {
            source: Committed(offset, encode_router(counts))
            for source, offset, counts in zip(
                self._sources, self._offsets, self._counts, strict=True
            )
        }

    def _settle(self, plan: Plan, inputs: ViewInputs, begun_s: float) -> None:
        """Believe a plan that is committed."""
        assert self._desk is not None  # noqa: S101  a plan was made with it
        self._desk.window.trim(int(time.time() * 1000))
        self._desk.bindings.trim()
        self._outlook.recorded(inputs, begun_s)
        self._on_committed(plan, time.monotonic() - begun_s)

    def _take_back(self, attempt: Attempt) -> None:
        """Undo what a plan that was not committed has changed in memory."""
        assert self._desk is not None  # noqa: S101  a plan was made with it
        self._outlook.deltas.take_back(attempt.delta)
        self._desk.window.forget_last(attempt.plan.remembered)
        for conversation, before in reversed(attempt.plan.bound):
            self._desk.bindings.take_back(conversation, before)
        self._desk.bindings.unstated()

    def _make_desk(self, window: DuplicateWindow, bindings: Bindings) -> Desk:
        return Desk(
            partition=self._number,
            names=self._names,
            policy=self._policy,
            view=self._outlook.view,
            window=window,
            bindings=bindings,
            widths=self._widths,
            pool_topics=pool_topic_names(self._names, self._pools),
        )


def _counts(committed: Committed) -> RouterCounts:
    return decode_router(committed.metadata) if committed.metadata else RouterCounts({})
