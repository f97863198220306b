"""What topics hold, for tests to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from aiokafka.structs import ConsumerRecord, TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan

Written: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


async def read_all(connection: Connection, partitions: Iterable[TopicPartition]) -> list[Written]:
    """Return all committed records of these partitions, one partition after another."""
    async with OffsetReader(connection) as offsets:
        ends = await offsets.end(list(partitions))
    return [record for tp, end in ends.items() async for record in scan(connection, tp, 0, end)]
