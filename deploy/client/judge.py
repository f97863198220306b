"""Whether every request ended exactly once, judged from the topics alone.

It asks nobody who sent or ran anything: what stands in `requests` is what was asked, and each
origin in `results` and `dead-letter` is an end.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from deploy.client.reader import Reader
from deploy.client.terminal import Terminal, read_terminal
from runtime.kafka.connection import Connection
from schemas.headers import Origin
from schemas.topics import TopicNames


class Verdict(NamedTuple):
    """What the topics say.

    Attributes:
        asked: records of `requests`.
        ends: terminal records, first to last, without superseded dead letters.
        missing: origins without a terminal record.
        repeated: origins with more than one.
        strange: terminal records of no request.
    """

    asked: int
    ends: tuple[Terminal, ...]
    missing: tuple[Origin, ...]
    repeated: tuple[Origin, ...]
    strange: tuple[Origin, ...]

    @property
    def exactly_once(self) -> bool:
        """Return whether every request has exactly one terminal record, and no other exists."""
        return not (self.missing or self.repeated or self.strange)


async def judge(connection: Connection, names: TopicNames) -> Verdict:
    """Read requests, results and dead letters from offset 0 and compare them by origin."""
    asked: set[Origin] = set()
    ends: list[Terminal] = []
    topics = (names.requests, names.results, names.dead_letter)
    async with Reader(connection, topics, from_end=False) as reader:
        while not await reader.at_end():
            for record in await reader.some():
                if record.topic == names.requests:
                    asked.add(Origin(record.topic, record.partition, record.offset))
                else:
                    ends.append(read_terminal(record, names))
    return verdict(asked, ends)


def verdict(asked: set[Origin], ends: list[Terminal]) -> Verdict:
    """Compare what was asked with how it ended; a superseded dead letter has ended nothing."""
    superseded = {end.supersedes for end in ends if end.supersedes}
    ends = [end for end in ends if not end.supersedes and end.place not in superseded]
    times = Counter(end.origin for end in ends)
    return Verdict(
        asked=len(asked),
        ends=tuple(sorted(ends, key=lambda end: end.timestamp_ms)),
        missing=tuple(sorted(asked - times.keys())),
        repeated=tuple(sorted(origin for origin, n in times.items() if n > 1)),
        strange=tuple(sorted(times.keys() - asked)),
    )
