"""A partition's memory, read back from `decisions`: its duplicate window, bindings, lost offsets.

The only reader of `decisions` in the router; called when a partition is opened, after fencing, so
that no predecessor can still add to what is read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from itertools import chain

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.scan import scan
from schemas.decisions import DEAD, DUPLICATE, DecisionsRecord, decode_decisions
from schemas.errors import FormatError
from schemas.metadata import encode_router
from schemas.outcomes import Reason
from streams.router.bindings import Bindings
from streams.router.window import WINDOW_MS, WINDOW_REQUESTS, DuplicateWindow

log = logging.getLogger(__name__)

FIRST_LOOK_BACK = 100
"""Offsets read from the end at first, then twice as many each time: a busy partition's window is in
the last hundred transactions, an idle one's in twenty thousand."""


async def read_memory(
    connection: Connection, decisions: TopicPartition, now_ms: int
) -> tuple[DuplicateWindow, Bindings]:
    """Return the window and the bindings that the last decisions of a partition leave."""
    window, bindings = DuplicateWindow(), Bindings()
    for record in await read_recent(connection, decisions):
        remember(record, window, bindings, now_ms)
    window.trim(now_ms)
    return window, bindings


async def read_recent(connection: Connection, decisions: TopicPartition) -> list[DecisionsRecord]:
    """Return the last decisions of a partition, as far back as the window reaches from the last.

    No further: work waits for it.
    """
    stretches: list[list[DecisionsRecord]] = []
    rows, last_ms = 0, None
    async for stretch in _backwards(connection, decisions):
        stretches.append(stretch)
        rows += sum(len(record.rows) for record in stretch)
        if stretch and last_ms is None:
            last_ms = stretch[-1].now_ms
        if rows >= WINDOW_REQUESTS or (
            stretch and last_ms is not None and last_ms - stretch[0].now_ms > WINDOW_MS
        ):
            break
    return list(chain.from_iterable(reversed(stretches)))


def remember(
    record: DecisionsRecord, window: DuplicateWindow, bindings: Bindings, now_ms: int
) -> None:
    """Enter what one decisions record says into window and bindings."""
    for row in record.rows:
        if row.outcome == DUPLICATE or row.outcome.startswith(DEAD):
            continue
        if now_ms - record.now_ms <= WINDOW_MS:
            window.claim((row.id, row.attempt, row.redrive), row.digest, record.now_ms)
        conversation = None if row.features is None else row.features.conversation
        if conversation is not None and row.pool is not None and row.node is not None:
            settles = row.outcome == Reason.STICKY.value or row.released != ""
            bindings.bind(conversation, (row.pool, row.node), settles=settles)
    bindings.learn(record.bound, record.now_ms)
    bindings.trim()  # as after each commit: what was forgotten then is bound anew by its next turn


async def find_offset(
    connection: Connection, decisions: TopicPartition, source: int
) -> Committed | None:
    """Return the offset and counts that the last decision about a source left, None without one."""
    async for stretch in _backwards(connection, decisions):
        for record in reversed(stretch):
            counts = record.counts[source]
            if counts is not None and record.next[source] >= 0:
                return Committed(record.next[source], encode_router(counts))
    return None


async def _backwards(
    connection: Connection, decisions: TopicPartition
) -> AsyncIterator[list[DecisionsRecord]]:
    """Yield the decisions of a partition from its end to its beginning, in ordered stretches."""
    async with OffsetReader(connection) as offsets:
        begin = (await offsets.begin([decisions]))[decisions]
        end = (await offsets.end([decisions]))[decisions]
    look_back = FIRST_LOOK_BACK
    while end > begin:
        start = max(begin, end - look_back)
        yield [record async for record in _decisions(connection, decisions, start, end)]
        end, look_back = start, look_back * 2


async def _decisions(
    connection: Connection, decisions: TopicPartition, start: int, end: int
) -> AsyncIterator[DecisionsRecord]:
    async for record in scan(connection, decisions, start, end):
        try:
            decided = decode_decisions(record.value or b"")
        except FormatError as error:
            log.warning("decisions %s offset %s skipped: %s", decisions, record.offset, error)
        else:
            # Ten minutes of snapshots, which nobody asks for here, could be gigabytes.
            yield decided._replace(view=decided.view._replace(body=None))
