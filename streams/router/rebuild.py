"""A partition's memory, read back from `decisions`: its duplicate window, bindings, lost offsets.

The only reader of `decisions` in the router; called when a partition is opened, after fencing, so
that no predecessor can still add to what is read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.scan import scan
from schemas.decisions import DecisionsRecord, decode_decisions
from schemas.errors import FormatError
from schemas.features import from_row
from schemas.metadata import encode_router
from streams.router.window import WINDOW_MS, WINDOW_REQUESTS, Bindings, DuplicateWindow

log = logging.getLogger(__name__)

OFFSETS_A_REQUEST = 2
"""At worst each request has a transaction of its own: its record and its marker."""
FIRST_LOOK_BACK = 1_000
"""Offsets read from the end to find the last counts; doubled until found."""


async def read_memory(
    connection: Connection, decisions: TopicPartition, now_ms: int
) -> tuple[DuplicateWindow, Bindings]:
    """Return the window and the bindings that the last decisions of a partition leave."""
    window, bindings = DuplicateWindow(), Bindings()
    async with OffsetReader(connection) as offsets:
        begin = (await offsets.begin([decisions]))[decisions]
        end = (await offsets.end([decisions]))[decisions]
    start = max(begin, end - OFFSETS_A_REQUEST * WINDOW_REQUESTS)
    async for record in _decisions(connection, decisions, start, end):
        remember(record, window, bindings, now_ms)
    window.trim(now_ms)
    bindings.trim()
    return window, bindings


def remember(
    record: DecisionsRecord, window: DuplicateWindow, bindings: Bindings, now_ms: int
) -> None:
    """Enter what one decisions record says into window and bindings."""
    for row in record.rows:
        if row.outcome == "duplicate" or row.outcome.startswith("dead:"):
            continue
        if now_ms - record.now_ms <= WINDOW_MS:
            window.add((row.id, row.attempt, row.redrive), row.digest, record.now_ms)
        conversation = None if row.features is None else from_row(row.features).conversation
        if conversation is not None and row.pool is not None and row.node is not None:
            bindings.bind(conversation, (row.pool, row.node))


async def find_offset(
    connection: Connection, decisions: TopicPartition, source: int
) -> Committed | None:
    """Return the offset and counts that the last decision about a source left, None without one."""
    async with OffsetReader(connection) as offsets:
        begin = (await offsets.begin([decisions]))[decisions]
        end = (await offsets.end([decisions]))[decisions]
    look_back = FIRST_LOOK_BACK
    upto = end
    while upto > begin:
        start = max(begin, end - look_back)
        found: Committed | None = None
        async for record in _decisions(connection, decisions, start, upto):
            counts = record.counts[source]
            if counts is not None and record.next[source] >= 0:
                found = Committed(record.next[source], encode_router(counts))
        if found is not None:
            return found
        upto, look_back = start, look_back * 2
    return None


async def _decisions(
    connection: Connection, decisions: TopicPartition, start: int, end: int
) -> AsyncIterator[DecisionsRecord]:
    async for record in scan(connection, decisions, start, end):
        try:
            yield decode_decisions(record.value or b"")
        except FormatError as error:
            log.warning("decisions %s offset %s skipped: %s", decisions, record.offset, error)
