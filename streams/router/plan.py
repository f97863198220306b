"""One transaction of a router as planned: outputs, offsets, counts, and what memory it touches.

Data only: `batch` fills it, `lane` commits it or takes it back.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Received, Undecodable
from schemas.decisions import DecisionRow
from schemas.metadata import RouterCounts
from streams.router.bindings import Binding
from streams.router.deltas import PoolPartition

REQUESTS, RETRY = 0, 1
"""Index of a source in every pair (requests, retry)."""

RECORDS_MAX = 1000
"""A transaction costs about 10 ms whatever it holds; beyond this its own latency grows instead."""
BATCH_BYTES_MAX = 480 * 1024
"""Of values and headers. A decision row holds no text but the request's own, so that with 300 bytes
a row and a snapshot of 200 KB the decisions record stays under its 1 MiB."""

Taken = tuple[int, Received, int]
"""A record taken from one of the two sources of a lane, and its weight: its bytes, about."""


def weigh(record: Received) -> int:
    """Return what the record weighs in memory, in bytes."""
    if isinstance(record, Undecodable):
        return 0
    # A key may be as large as a value: uncounted, a thousand of them make no transaction that ends.
    weight = len(record.value or b"") + len(record.key or b"")
    if record.headers:
        weight += sum(len(name) + len(value or b"") for name, value in record.headers)
    return weight


def cut(queue: deque[Taken]) -> list[Taken]:
    """Return the records at the head of the queue that fit one transaction: at least one."""
    taken: list[Taken] = []
    weight = 0
    while queue and len(taken) < RECORDS_MAX:
        weight += queue[0][2]
        if weight > BATCH_BYTES_MAX and taken:
            break
        taken.append(queue.popleft())
    return taken


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
    objectives_missed: int = 0
    duplicates: int = 0
    dropped_headers: int = 0

    def take(self, taken: Sequence[Taken]) -> None:
        """Count records as consumed, and move the offsets to commit past them."""
        for source, headcount in enumerate(self.headcounts):
            offsets = [record.offset for came_from, record, _ in taken if came_from == source]
            if offsets:
                self.first[source], self.next[source] = offsets[0], offsets[-1] + 1
                self.consumed[source] = len(offsets)
                headcount.tally["consumed"] += len(offsets)
