"""The work that is there: requests that have not ended, conversations that are bound.

Read from where the groups stand to the end of each partition, without what the offsets' metadata
says is finished. Capped, since a dry run must end; what was left out is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from aiokafka.structs import ConsumerRecord, TopicPartition

from deploy.models.impact import Piece
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from schemas.errors import RecordRejected
from schemas.headers import ORIGIN, Origin, split_headers
from schemas.metadata import FinishedCounts, decode_finished
from schemas.topics import TopicNames
from schemas.value import replace
from streams.control.lag import Commits, Reading
from streams.router.bindings import Bindings
from streams.router.intake import Arrival, take_request, take_retry
from streams.router.rebuild import read_recent, remember
from streams.router.window import DuplicateWindow

RECORDS_MAX = 50_000
"""Of all partitions together: some ten seconds of reading."""
AT_ONCE = 8
"""Partitions read side by side."""
ALWAYS_MS = 2**62
"""When a bound conversation expires, epoch ms: never."""

_Record: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


class Pending(NamedTuple):
    """What was found.

    Attributes:
        pieces: the work, in the order of topics and offsets.
        left_out: offsets that were not read for the cap, by partition: records there, at most.
    """

    pieces: list[Piece]
    left_out: dict[str, int]


class _Span(NamedTuple):
    """A stretch of a partition; below the frontier only what is unfinished counts."""

    place: TopicPartition
    start: int
    end: int
    pool: str | None
    frontier: int
    unfinished: frozenset[int]

    def __str__(self) -> str:
        return f"{self.place.topic}-{self.place.partition}"


async def read_requests(
    connection: Connection, names: TopicNames, reading: Reading, pools: Mapping[str, str]
) -> Pending:
    """Return the requests that have not ended; raise BrokerUnreachable.

    Args:
        connection: how to reach the brokers.
        names: of the topics.
        reading: where all groups stand.
        pools: pool by topic.
    """
    spans = await _spans(connection, {**reading.routed, **reading.finished}, pools)
    most = RECORDS_MAX // max(1, len(spans))
    left_out = {str(span): span.end - span.start - most for span in spans}
    turn = asyncio.Semaphore(AT_ONCE)

    async def read(span: _Span) -> list[tuple[bytes, Piece]]:
        end = min(span.end, span.start + most)
        async with turn:  # a record a time: together their payloads may not fit in memory
            return [
                request
                async for record in scan(connection, span.place, span.start, end)
                if (request := _request(span, record, names)) is not None
            ]

    found = await asyncio.gather(*map(read, spans))
    # One that was decided while we read stands in two places: the first counts.
    by_origin: dict[bytes, Piece] = {}
    for origin, piece in (one for each in found for one in each):
        by_origin.setdefault(origin, piece)
    return Pending(
        list(by_origin.values()), {place: over for place, over in left_out.items() if over > 0}
    )


async def read_conversations(
    connection: Connection, decisions: str, partitions: int, now_ms: int
) -> list[Piece]:
    """Return the bound conversations, each with its last request; raise BrokerUnreachable.

    They are what a router that starts now would remember, but for those that have paused for so
    long that only their binding is stated anew: what they ask for is not known.
    """
    found: list[Piece] = []
    for number in range(partitions):
        bindings, last = Bindings(), {}
        for record in await read_recent(connection, TopicPartition(decisions, number)):
            remember(record, DuplicateWindow(), bindings, now_ms)
            for row in record.rows:
                if row.features is not None:
                    last[row.features.conversation] = row.features
        for conversation, (pool, node) in bindings.by_conversation.items():
            if conversation not in last:
                continue
            asked = replace(last[conversation], excluded=(), expires_at_ms=ALWAYS_MS)
            found.append(Piece("conversation", node, conversation, asked, pool))
    return found


async def _spans(connection: Connection, commits: Commits, pools: Mapping[str, str]) -> list[_Span]:
    """Return what stands between the commits and the ends, where anything does."""
    places = [TopicPartition(*place) for place in commits]
    async with OffsetReader(connection) as offsets:
        begins, ends = await offsets.begin(places), await offsets.end(places)
    spans = []
    for place, committed in zip(places, commits.values(), strict=True):
        start = max(begins[place], 0 if committed is None else committed.offset)
        counts = FinishedCounts(0, start)
        if place.topic in pools and committed is not None and committed.metadata:
            counts = decode_finished(committed.metadata)
        if start < ends[place]:
            pool, unfinished = pools.get(place.topic), frozenset(counts.unfinished)
            spans.append(_Span(place, start, ends[place], pool, counts.frontier, unfinished))
    return spans


def _request(span: _Span, record: _Record, names: TopicNames) -> tuple[bytes, Piece] | None:
    """Return the request that a record of a span is, by its origin; None if it is finished."""
    if record.offset < span.frontier and record.offset not in span.unfinished:
        return None
    try:
        arrival, origin = _arrival(record, at_the_door=record.topic == names.requests)
    except RecordRejected:
        return None  # no request: whoever takes it buries it
    place = f"{span}@{record.offset}"
    return origin, Piece("request", place, arrival.identity[0], arrival.features, span.pool)


def _arrival(record: _Record, *, at_the_door: bool) -> tuple[Arrival, bytes]:
    """Return the request that a record is, and its encoded origin."""
    if not at_the_door:
        _, ours = split_headers(record.headers)
        return take_retry(record), ours[ORIGIN]
    origin = Origin(record.topic, record.partition, record.offset).encode()
    return take_request(origin, record), origin
