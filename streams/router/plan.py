"""One transaction of a router as planned: outputs, offsets, counts, and what memory it touches.

Data only: `batch` fills it, `lane` commits it or takes it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Received
from schemas.decisions import DecisionRow
from schemas.metadata import RouterCounts
from streams.router.bindings import Binding
from streams.router.deltas import PoolPartition
from streams.router.intake import Arrival
from streams.router.queue import Run

REQUESTS, RETRY = 0, 1
"""Index of a source in every pair (requests, retry)."""


class Headcount:
    """The counts of one source while a batch is planned.

    Attributes:
        routed: records by pool topic and partition.
        work: MFLOP by pool and partition.
        tally: the other counts, by name.
    """

    def __init__(self, counts: RouterCounts) -> None:
        self.routed = {topic: list(partitions) for topic, partitions in counts.routed.items()}
        self.work = {pool: list(partitions) for pool, partitions in counts.work.items()}
        self.tally = Counter(
            consumed=counts.consumed,
            dead=counts.dead,
            expired=counts.expired,
            unroutable=counts.unroutable,
            duplicate=counts.duplicate,
        )

    def counts(self) -> RouterCounts:
        """Return the counts as they are now."""
        tally = self.tally
        return RouterCounts(
            {topic: tuple(partitions) for topic, partitions in self.routed.items()},
            consumed=tally["consumed"],
            dead=tally["dead"],
            expired=tally["expired"],
            unroutable=tally["unroutable"],
            duplicate=tally["duplicate"],
            work={pool: tuple(partitions) for pool, partitions in self.work.items()},
        )


def add_up(counts: dict[str, list[int]], name: str, partition: int, number: int) -> None:
    """Add to a partition's count, which begins at 0."""
    if not number:
        return
    partitions = counts.setdefault(name, [])
    if partition >= len(partitions):
        partitions.extend([0] * (partition + 1 - len(partitions)))
    partitions[partition] += number


class Ended(NamedTuple):
    """A record that went no further, for the trace that it is part of.

    Attributes:
        arrival: the request; None if the record is none.
        why: expired, unroutable, or the category of the dead letter.
        topic: where it was written.
    """

    record: Received
    arrival: Arrival | None
    why: str
    topic: str


@dataclass
class Plan:
    """One transaction: its outputs, and what holds once it is committed.

    Attributes:
        first, next: per source the first offset taken and the offset to commit; -1 untouched.
        rows: of the decisions record, in the order taken.
        consumed: records taken, by source.
        remembered: how many identities were added to the window.
        bound: conversations bound anew, in order, each with what it was bound to before.
        outcomes: (pool or none, reason, mode) by count, for the metrics.
        deaths: dead letters by category.
        ended: what ends here.
        objectives_missed: of requests that end here.
    """

    headcounts: tuple[Headcount, Headcount]
    outputs: Outputs = field(default_factory=Outputs)
    first: list[int] = field(default_factory=lambda: [-1, -1])
    next: list[int] = field(default_factory=lambda: [-1, -1])
    rows: list[DecisionRow] = field(default_factory=list)
    routed: Counter[PoolPartition] = field(default_factory=Counter)
    consumed: list[int] = field(default_factory=lambda: [0, 0])
    remembered: int = 0
    bound: list[tuple[str, Binding | None]] = field(default_factory=list)
    outcomes: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    deaths: Counter[str] = field(default_factory=Counter)
    ended: list[Ended] = field(default_factory=list)
    objectives_missed: int = 0
    duplicates: int = 0
    dropped_headers: int = 0

    def take(self, runs: Sequence[Run]) -> None:
        """Count records as consumed, and move the offsets to commit past them."""
        for source, records in runs:
            if self.first[source] < 0:
                self.first[source] = records[0].offset
            self.next[source] = records[-1].offset + 1
            self.consumed[source] += len(records)
            self.headcounts[source].tally["consumed"] += len(records)
