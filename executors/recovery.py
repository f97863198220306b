"""Where a pool partition stands, told by the records that nodes wrote for it.

For the day on which the group's offsets are gone. Each transaction's last record of a partition
carries that partition's ledger, so the newest one is what was committed with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.scan import scan
from schemas.headers import FINISHED, LEDGER, Finished
from schemas.metadata import decode_finished
from schemas.topics import TopicNames

FIRST_LOOK_RECORDS = 20_000
"""Offsets read back from each end at first: about 50 ms a partition; then eight times as many."""
LOOK_GROWTH = 8
CLOCK_SKEW_MS = 5 * 60 * 1000
"""How far the clocks of two nodes may differ: timestamps of records are theirs."""


async def last_ledger(
    connection: Connection,
    names: TopicNames,
    partitions: Mapping[str, int],
    lost: TopicPartition,
) -> Committed | None:
    """Return the offset and metadata that the newest record written for a partition tells.

    Call it after fencing, so that nothing newer can appear. None if no such record is there.
    """
    written = [
        TopicPartition(topic, number)
        for topic in (names.results, names.retry, names.dead_letter)
        for number in range(partitions[topic])
    ]
    async with OffsetReader(connection) as reader:
        begin, end = await reader.begin(written), await reader.end([*written, lost])
    if end[lost] == 0:
        return None  # nothing was ever routed here: a new pool must not read a week of results
    look = FIRST_LOOK_RECORDS
    while True:
        newest: Committed | None = None
        newest_count, newest_ms = -1, -math.inf
        unseen_ms = -math.inf  # the latest moment up to which some record may not have been read
        for tp in written:
            start = max(begin[tp], end[tp] - look)
            oldest_ms: float | None = None
            async for record in scan(connection, tp, start, end[tp]):
                oldest_ms = record.timestamp if oldest_ms is None else oldest_ms
                found = _ledger_in(record.headers, lost)
                if found is not None and found[0] > newest_count:
                    newest_count, newest = found
                    newest_ms = record.timestamp
            if start > begin[tp]:
                unseen_ms = max(unseen_ms, math.inf if oldest_ms is None else oldest_ms)
        # Counts grow with time: a record as late as this one, and seen everywhere, is the newest.
        if newest_ms > unseen_ms + CLOCK_SKEW_MS or unseen_ms == -math.inf:
            return newest
        look *= LOOK_GROWTH


def _ledger_in(
    headers: Sequence[tuple[str, bytes | None]], lost: TopicPartition
) -> tuple[int, Committed] | None:
    ours = dict(headers)
    finished, ledger = ours.get(FINISHED), ours.get(LEDGER)
    if finished is None or ledger is None:
        return None
    said = Finished.decode(finished)
    if (said.topic, said.partition) != (lost.topic, lost.partition):
        return None
    metadata = ledger.decode("ascii")
    return said.total, Committed(decode_finished(metadata).committed, metadata)
