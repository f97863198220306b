"""The record of `control` that counts: the last committed snapshot."""

from __future__ import annotations

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from schemas.control import SNAPSHOT_KEY, Snapshot
from schemas.message import decode
from schemas.topics import TopicNames

LOOK_BACK = (20, 2_000)
"""Offsets before the end to begin at, in turn, then the whole topic: a snapshot and its marker take
two, aborted ones lie between."""


async def last_snapshot(
    connection: Connection, offsets: OffsetReader, names: TopicNames
) -> Snapshot | None:
    """Return the last committed snapshot, None if there never was one.

    Raises:
        FormatError: it is by a newer release.
        BrokerUnreachable: no answer in time.
    """
    place = TopicPartition(names.control, 0)
    end = (await offsets.end([place]))[place]
    begin = (await offsets.begin([place]))[place]
    for back in (*LOOK_BACK, end):
        start = max(begin, end - back)
        found = [
            record.value
            async for record in scan(connection, place, start, end)
            if record.key == SNAPSHOT_KEY and record.value is not None
        ]
        if found:
            return decode(Snapshot, found[-1])
        if start == begin:
            break
    return None
