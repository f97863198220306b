"""What topics hold, for tests to look at."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TypeAlias

from aiokafka.structs import ConsumerRecord, TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan

Written: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"

SEEN_WITHIN_S = 1.0
"""A broker writes the end of a transaction some milliseconds after it confirms it."""


async def read_all(connection: Connection, partitions: Iterable[TopicPartition]) -> list[Written]:
    """Return all committed records of these partitions, one partition after another.

    A commit is confirmed a little before readers see what it wrote, which is waited for; not for
    long, as tests leave transactions open on purpose.
    """
    places = list(partitions)
    give_up = time.monotonic() + SEEN_WITHIN_S
    async with OffsetReader(connection) as offsets:
        written = await offsets.end(places, stable=False)
        ends = await offsets.end(places)
        while any(ends[tp] < written[tp] for tp in places) and time.monotonic() < give_up:
            await asyncio.sleep(0.02)
            ends = await offsets.end(places)
    return [record for tp, end in ends.items() async for record in scan(connection, tp, 0, end)]
