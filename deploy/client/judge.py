"""Whether every request ended exactly once, judged from the topics alone.

It asks nobody who sent or ran anything: what stands in `requests` is what was asked, each origin in
`results` and `dead-letter` is an end, and a repeat ends where `decisions` says that it is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from deploy.client.reader import Reader
from deploy.client.terminal import Record, Terminal, read_terminal
from runtime.kafka.connection import Connection
from schemas.decisions import DUPLICATE, decode_decisions
from schemas.headers import ORIGIN, Origin, split_headers
from schemas.topics import TopicNames
from streams.router.plan import REQUESTS


class Verdict(NamedTuple):
    """What the topics say.

    Attributes:
        asked: records of `requests`.
        ends: terminal records, first to last, without superseded dead letters.
        missing: origins without an end.
        repeated: origins with more than one, or with one although they were a repeat.
        strange: terminal records of no request.
    """

    asked: int
    ends: tuple[Terminal, ...]
    missing: tuple[Origin, ...]
    repeated: tuple[Origin, ...]
    strange: tuple[Origin, ...]

    @property
    def exactly_once(self) -> bool:
        """Return whether every request has exactly one end, and no other end exists."""
        return not (self.missing or self.repeated or self.strange)


async def judge(connection: Connection, names: TopicNames) -> Verdict:
    """Read requests, decisions, results and dead letters from offset 0, compare them by origin."""
    asked: set[Origin] = set()
    ends: list[Terminal] = []
    repeats: list[Origin] = []
    retried: dict[Origin, Origin] = {}
    topics = (names.requests, names.retry, names.decisions, names.results, names.dead_letter)
    async with Reader(connection, topics, from_end=False) as reader:
        while not await reader.at_end():
            for record in await reader.some():
                if record.topic == names.requests:
                    asked.add(place_of(record))
                elif record.topic == names.retry:
                    retried[place_of(record)] = request_of(record)
                elif record.topic == names.decisions:
                    repeats += repeats_in(record.value or b"", names)
                else:
                    ends.append(read_terminal(record, names))
    return verdict(asked, ends, (retried.get(place, place) for place in repeats))


def place_of(record: Record) -> Origin:
    """Return where a record stands."""
    return Origin(record.topic, record.partition, record.offset)


def request_of(retried: Record) -> Origin:
    """Return which request a record of `retry` is; its own place where it does not say."""
    said = split_headers(retried.headers)[1].get(ORIGIN)
    return place_of(retried) if said is None else Origin.decode(said)


def repeats_in(decisions: bytes, names: TopicNames) -> list[Origin]:
    """Return the places of records that a record of `decisions` calls repeats.

    A place in `retry` is a letter that was sent in again beside another of the same bytes: what
    that record says is the request that has no end of its own.
    """
    record = decode_decisions(decisions)
    return [
        Origin(
            names.requests if row.source == REQUESTS else names.retry, record.partition, row.offset
        )
        for row in record.rows
        if row.outcome == DUPLICATE
    ]


def verdict(
    asked: set[Origin], ends: Iterable[Terminal], repeats: Iterable[Origin] = ()
) -> Verdict:
    """Compare what was asked with how it ended; to be found a repeat is an end."""
    in_order = tuple(sorted(standing(ends), key=lambda end: end.timestamp_ms))
    compared = compare(asked, (*(end.origin for end in in_order), *repeats))
    return Verdict(len(asked), in_order, *compared)


def standing(ends: Iterable[Terminal]) -> list[Terminal]:
    """Return the ends that count: a superseded dead letter, and what says so, end nothing."""
    ends = list(ends)
    superseded = {end.supersedes for end in ends if end.supersedes}
    return [end for end in ends if not end.supersedes and end.place not in superseded]


class Comparison(NamedTuple):
    """Requests beside ends: those without one, those with several, ends without a request."""

    missing: tuple[Origin, ...]
    repeated: tuple[Origin, ...]
    strange: tuple[Origin, ...]


def compare(asked: AbstractSet[Origin], ended: Iterable[Origin]) -> Comparison:
    """Compare the origins of requests with those of ends."""
    times = Counter(ended)
    return Comparison(
        missing=tuple(sorted(asked - times.keys())),
        repeated=tuple(sorted(origin for origin, n in times.items() if n > 1)),
        strange=tuple(sorted(times.keys() - asked)),
    )
