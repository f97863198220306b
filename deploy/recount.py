"""The counts that a lost offset is set with, so that lag stays true, in records and in work.

They are counted from what the other commits say and from the records that stand in the pools. It
writes nothing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from aiokafka.structs import TopicPartition

from executors.work import Source, read_work
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.scan import scan
from runtime.kafka.topics import partition_counts
from runtime.settings import Settings
from schemas.errors import OverspillError, RecordRejected
from schemas.metadata import (
    FinishedCounts,
    RouterCounts,
    decode_finished,
    decode_router,
    encode_finished,
    encode_router,
)
from schemas.topics import executor_group, router_group
from schemas.work import mflop_ahead

Found = TypeVar("Found")

STILL_TRIES = 20
STILL_PAUSE_S = 0.25
"""Counts are set from readings that must not move meanwhile: 5 s for a moment without routing."""


class Load(NamedTuple):
    """Some records and their work."""

    records: int
    mflop: int


class Routed(NamedTuple):
    """What routers' commits say: records by pool topic and partition, MFLOP by pool and partition.

    Names are without the prefix.
    """

    records: dict[tuple[str, int], int]
    mflop: dict[tuple[str, int], int]


class Recount:
    """Counts for the lost partitions of one installation."""

    def __init__(self, settings: Settings, connection: Connection, reader: OffsetReader) -> None:
        self._settings = settings
        self._names = settings.topics
        self._connection = connection
        self._reader = reader

    async def of_routers(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        """Return commits that give the lost input what no other input says it has routed.

        The first of the lost has all of it: only the sum over the inputs is ever read.

        Raises:
            OverspillError: routers do not pause long enough for counts to be read.
        """

        async def missing() -> RouterCounts:
            known = await self._routed(but=offsets.keys())
            routed: dict[str, tuple[int, ...]] = {}
            work: dict[str, tuple[int, ...]] = {}
            for pool in self._settings.pools:
                arrived = {
                    self._bare(topic): await self._arrived(pool.name, topic)
                    for topic in self._names.of_pool(pool)
                }
                routed |= {
                    topic: tuple(
                        max(0, load.records - known.records[topic, n])
                        for n, load in enumerate(loads)
                    )
                    for topic, loads in arrived.items()
                }
                work[pool.name] = tuple(
                    max(0, mflop_ahead(sum(load.mflop for load in lane), known.mflop[pool.name, n]))
                    for n, lane in enumerate(zip_longest(*arrived.values(), fillvalue=Load(0, 0)))
                )
            return RouterCounts(routed, consumed=sum(map(sum, routed.values())), work=work)

        first, *others = offsets
        found = await self._while_still(missing)
        nothing = RouterCounts({topic: (0,) * len(n) for topic, n in found.routed.items()})
        return {
            first: Committed(offsets[first], encode_router(found)),
            **{tp: Committed(offsets[tp], encode_router(nothing)) for tp in others},
        }

    async def of_nodes(
        self, group: str, lane: Sequence[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Committed]:
        """Return commits that call finished whatever was routed and lies before the offset.

        Work is told for both topics of a lane together: the first of the lost has all of it.

        Args:
            group: of the pool's nodes.
            lane: the pool partition: its leader, then its express twin if it has one.
            offsets: of those that are lost, what to begin with.

        Raises:
            OverspillError: routers do not pause long enough for counts to be read.
        """
        pool = self._bare(lane[0].topic)

        async def counts() -> dict[TopicPartition, FinishedCounts]:
            routed, ends = await self._routed(), await self._reader.end(lane)
            kept = await self._reader.committed(group, [tp for tp in lane if tp not in offsets])
            left = {tp: await self._load(tp, offset, ends[tp]) for tp, offset in offsets.items()}
            elsewhere = [*left.values()]
            elsewhere += [await self._arrived_in(tp, said, ends[tp]) for tp, said in kept.items()]
            accounted = sum(load.mflop for load in elsewhere)
            mflop = max(0, mflop_ahead(routed.mflop[pool, lane[0].partition], accounted))
            found = {}
            for tp, offset in offsets.items():
                sent = routed.records[self._bare(tp.topic), tp.partition]
                finished = max(0, sent - left[tp].records)
                found[tp] = FinishedCounts(finished, offset, work=mflop)
                mflop = 0
            return found

        return {
            tp: Committed(said.frontier, encode_finished(said))
            for tp, said in (await self._while_still(counts)).items()
        }

    async def _routed(self, but: Iterable[TopicPartition] = ()) -> Routed:
        """Return what was routed by all inputs but these."""
        names = self._names
        widths = await partition_counts(self._connection, (names.requests, names.retry))
        sources = {TopicPartition(t, n) for t, width in widths.items() for n in range(width)}
        said = await self._reader.committed(router_group(names.prefix), sources - set(but))
        routed = Routed(defaultdict(int), defaultdict(int))
        for committed in said.values():
            if committed is not None and committed.metadata:
                counts = decode_router(committed.metadata)
                for sums, by_name in zip(routed, (counts.routed, counts.work), strict=True):
                    for name, numbers in by_name.items():
                        for partition, number in enumerate(numbers):
                            sums[name, partition] += number
        return routed

    async def _arrived(self, pool: str, topic: str) -> list[Load]:
        """Return what each partition of a pool topic has got: finished, begun or waiting."""
        widths = await partition_counts(self._connection, [topic])
        tps = [TopicPartition(topic, number) for number in range(widths[topic])]
        said = await self._reader.committed(executor_group(self._names.prefix, pool), tps)
        ends = await self._reader.end(tps)
        return [await self._arrived_in(tp, said[tp], ends[tp]) for tp in tps]

    async def _arrived_in(self, tp: TopicPartition, said: Committed | None, end: int) -> Load:
        if said is None or not said.metadata:
            return await self._load(tp, 0 if said is None else said.offset, end)
        counts = decode_finished(said.metadata)
        left = await self._load(tp, counts.committed, end, counts)
        return Load(counts.finished + left.records, counts.work + left.mflop)

    async def _load(
        self, tp: TopicPartition, start: int, end: int, begun: FinishedCounts | None = None
    ) -> Load:
        """Return what stands between two offsets, without what was finished by these counts."""
        records = mflop = 0
        frontier, unfinished = (begun.frontier, {*begun.unfinished}) if begun else (start, set())
        async for record in scan(self._connection, tp, start, end):
            if record.offset < frontier and record.offset not in unfinished:
                continue
            records += 1
            source = Source(tp.topic, tp.partition, record.offset)
            try:
                work = read_work(source, record.key, record.value, record.headers, express=False)
            except RecordRejected:
                continue  # nobody counted work for it
            mflop += work.mflop
        return Load(records, mflop)

    async def _while_still(self, read: Callable[[], Awaitable[Found]]) -> Found:
        """Return what is read between two equal readings of what the routers have routed."""
        for _ in range(STILL_TRIES):
            before = await self._routed()
            found = await read()
            if await self._routed() == before:
                return found
            await asyncio.sleep(STILL_PAUSE_S)
        raise OverspillError(
            "routers are routing all the time, so counts cannot be set: stop them, then try again"
        )

    def _bare(self, topic: str) -> str:
        return topic.removeprefix(self._names.prefix)
