"""Counting what stands between a committed offset and the end of its partition, record by record.

Offsets alone would count the markers that transactions leave. Beyond a bound, and where reading
takes too long, the distance of the offsets is given instead: it overstates and never understates.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection, connect
from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import Fetcher
from runtime.kafka.records import Decoded

READ_AT_MOST = 10_000
"""Offsets of one partition that are read; a longer backlog needs no exact number."""

Spans = Mapping[TopicPartition, tuple[int, int]]
"""By partition: the first offset to count and the one past the last."""


async def count_records(
    connection: Connection, spans: Spans, within_s: float = 2.0
) -> dict[TopicPartition, int]:
    """Return how many committed records each span holds.

    Raises:
        BrokerUnreachable: no broker answers.
    """
    distances = {place: max(0, end - start) for place, (start, end) in spans.items()}
    short = {place: span for place, span in spans.items() if 0 < distances[place] <= READ_AT_MOST}
    if not short:
        return distances
    counter = _Counter(short)
    client = await connect(connection)
    fetching = asyncio.ensure_future(Fetcher(client, counter, HostCounts()).run())
    counted = asyncio.ensure_future(counter.finished.wait())
    try:
        await asyncio.wait(
            {fetching, counted}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for task in (fetching, counted):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await client.close()
    return {**distances, **counter.complete()}


class _Counter:
    """A sink that counts what it is given."""

    def __init__(self, spans: Spans) -> None:
        self.finished = asyncio.Event()
        self._spans = spans
        self._next = {place: start for place, (start, _) in spans.items()}
        self._counts = dict.fromkeys(spans, 0)

    def wanted(self) -> Mapping[TopicPartition, int]:
        return {place: at for place, at in self._next.items() if at < self._spans[place][1]}

    def deliver(self, tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        if self._next[tp] == asked:
            end = self._spans[tp][1]
            self._counts[tp] += sum(record.offset < end for record in decoded.records)
            self._move(tp, decoded.next_offset)

    def out_of_range(self, tp: TopicPartition, asked: int) -> None:
        del asked
        # Retention has passed the commit since we asked: what is gone is no backlog.
        self._move(tp, self._spans[tp][1])

    def complete(self) -> dict[TopicPartition, int]:
        """Return the counts of the partitions read to their end."""
        return {tp: count for tp, count in self._counts.items() if tp not in self.wanted()}

    def _move(self, tp: TopicPartition, offset: int) -> None:
        self._next[tp] = offset
        if not self.wanted():
            self.finished.set()
