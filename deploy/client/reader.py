"""Read topics from any point, committed records only, outside every group.

Knows positions, not meanings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from typing_extensions import Self

from deploy.client.terminal import Record
from runtime.kafka.connection import Connection, unreachable
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import groupless_consumer
from runtime.kafka.topics import partition_counts
from runtime.kafka.widths import Widths

WAIT_MS = 100
"""How long the broker may hold a fetch for which there is nothing: what is new shows at once."""


class Reader:
    """Follows all partitions of some topics, added ones too; an asynchronous context manager.

    Args:
        from_end: begin at the end instead of at offset 0.
        last: with `from_end`, go back so many offsets in each partition.
    """

    def __init__(
        self, connection: Connection, topics: Sequence[str], *, from_end: bool, last: int = 0
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._from_end = from_end
        self._last = last
        self._consumer: AIOKafkaConsumer[bytes | None, bytes | None] | None = None
        self._ends: Mapping[TopicPartition, int] = {}
        self._widths = Widths(connection, {})
        self._following: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Find partitions and positions; raise BrokerUnreachable or TopicMismatch."""
        found = await partition_counts(self._connection, self._topics)
        self._widths = Widths(self._connection, found)
        partitions = self._partitions()
        async with OffsetReader(self._connection) as offsets:
            begins = await offsets.begin(partitions)
            self._ends = await offsets.end(partitions)
        consumer = groupless_consumer(self._connection, WAIT_MS)
        try:
            await consumer.start()
        except KafkaError as error:
            await consumer.stop()
            raise unreachable(self._connection, error) from error
        consumer.assign(partitions)
        for tp in partitions:
            start = self._ends[tp] - self._last if self._from_end else 0
            consumer.seek(tp, max(begins[tp], start))
        # aiokafka raises CancelledError when a consumer is stopped before its own task has begun.
        await asyncio.sleep(0)
        self._consumer = consumer
        self._following = asyncio.ensure_future(self._widths.follow())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        if self._consumer is not None:
            await self._consumer.stop()

    async def some(self) -> list[Record]:
        """Return what has come within 0.1 s, in the order of each partition; maybe nothing."""
        assert self._consumer is not None  # noqa: S101  entered
        partitions = self._partitions()
        if len(partitions) > len(self._consumer.assignment()):
            await self._widen(self._consumer, partitions)
        found = await self._consumer.getmany(timeout_ms=WAIT_MS)
        return [record for records in found.values() for record in records]

    async def at_end(self) -> bool:
        """Return whether all that was there when this began has been read."""
        assert self._consumer is not None  # noqa: S101  entered
        for tp, end in self._ends.items():
            # Transaction markers leave no record: only the position tells.
            if await self._consumer.position(tp) < end:
                return False
        return True

    def _partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic, width in self._widths.items()
            for number in range(width)
        ]

    async def _widen(
        self,
        consumer: AIOKafkaConsumer[bytes | None, bytes | None],
        partitions: list[TopicPartition],
    ) -> None:
        """Read added partitions from their beginning, and the others from where we are."""
        positions = {tp: await consumer.position(tp) for tp in consumer.assignment()}
        consumer.assign(partitions)  # it forgets every position
        for tp in partitions:
            consumer.seek(tp, positions.get(tp, 0))
