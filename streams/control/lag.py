"""Lag by counting: what routers have routed less what nodes have finished, per pool partition.

Pure: committed offsets with their metadata in, one sample out, in records and in work. Offsets
themselves are never subtracted: every transaction leaves a marker behind, so they overstate a queue
up to two times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import zip_longest
from types import MappingProxyType
from typing import NamedTuple

from runtime.kafka.offsets import Committed
from schemas.control import LagSample, PartitionLag
from schemas.metadata import FinishedCounts, RouterCounts, decode_finished, decode_router
from schemas.pools import Pool
from schemas.topics import TopicNames
from schemas.work import MFLOP_WRAP, mflop_ahead

NO_COMMIT = -1
NOTHING_FINISHED = FinishedCounts(finished=0, frontier=0)

_COMMITS_KEPT = 1024
"""Of 64 inputs and all pool partitions the commits that have not moved since the last reading."""
_decode_router = lru_cache(_COMMITS_KEPT)(decode_router)
_decode_finished = lru_cache(_COMMITS_KEPT)(decode_finished)

Place = tuple[str, int]
"""A partition of a topic, by its full name."""
Commits = Mapping[Place, "Committed | None"]
"""What a group committed for each partition asked for; None where it never did."""
Arrivals = Mapping[Place, int]
"""When the record at the committed offset of a pool topic's partition arrived, epoch ms."""


class Reading(NamedTuple):
    """What one probe read, in this order: `finished`, then `routed`.

    Read the other way round, work that is routed and finished in between would count as finished
    and not as routed.

    Attributes:
        finished: by topic partition of every pool, what the pool's nodes committed.
        routed: by partition of `requests` and `retry`, what the routers committed.
        probed_at_ms: when it began, epoch ms.
        took_ms: how long it took.
    """

    finished: Commits
    routed: Commits
    probed_at_ms: int
    took_ms: float


class Counts(NamedTuple):
    """A reading decoded: what was routed to and finished of each pool topic's partition.

    Attributes:
        of_routers: by input partition with a commit.
        finished: by place, of all pools.
        routed: records by place; one that was added a moment ago may be routed to before we ask
            what it finished.
        work: MFLOP routed by pool and partition.
    """

    of_routers: tuple[RouterCounts, ...]
    finished: Mapping[Place, FinishedCounts]
    routed: Mapping[Place, int]
    work: Mapping[tuple[str, int], int]

    def unfinished(self, place: Place) -> int:
        """Return how many records are left at a place, below 0 if counts were lost."""
        finished = self.finished.get(place, NOTHING_FINISHED).finished
        return self.routed.get(place, 0) - finished


def count(reading: Reading, names: TopicNames) -> Counts:
    """Return the counts in a reading; raise FormatError if metadata is not ours."""
    of_routers = tuple(
        _decode_router(committed.metadata)
        for committed in reading.routed.values()
        if committed is not None and committed.metadata
    )
    finished = {place: _finished(committed) for place, committed in reading.finished.items()}
    return Counts(
        of_routers,
        finished,
        _sums((said.routed for said in of_routers), names.prefix),
        _sums((said.work for said in of_routers), ""),
    )


def lowest_unfinished(counts: Counts) -> dict[Place, int]:
    """Return the offset of the oldest unfinished record of each place that has one."""
    return {
        place: counts.finished.get(place, NOTHING_FINISHED).committed
        for place in counts.finished.keys() | counts.routed.keys()
        if counts.unfinished(place) > 0
    }


def fold_lag(
    reading: Reading,
    names: TopicNames,
    pools: Iterable[Pool],
    arrivals: Arrivals = MappingProxyType({}),
) -> LagSample:
    """Return the sample that a reading says.

    A difference below zero is shown as 0 and counted: it means that counts were lost, never that a
    queue is shorter than empty. Work where no record is left is the same: it shows as 0.

    Args:
        reading: the commits.
        names: of the topics.
        pools: as configured.
        arrivals: of the oldest unfinished records, as far as known.

    Raises:
        FormatError: metadata that is not ours; nothing can be said then.
    """
    counts = count(reading, names)
    lags = {pool.name: _pool_lag(pool, names, counts, arrivals) for pool in pools}
    every_lag = [lag for pool in lags.values() for lag in pool]
    routers, nodes = counts.of_routers, counts.finished.values()
    return LagSample(
        probed_at_ms=reading.probed_at_ms,
        took_ms=reading.took_ms,
        pools=lags,
        requests_included=_included(reading.routed, names.requests),
        retry_included=_included(reading.routed, names.retry),
        consumed=sum(said.consumed for said in routers),
        dead=sum(said.dead for said in routers),
        expired=sum(said.expired for said in routers),
        unroutable=sum(said.unroutable for said in routers),
        duplicate=sum(said.duplicate for said in routers),
        finished_dead=sum(said.dead for said in nodes),
        finished_expired=sum(said.expired for said in nodes),
        clamped=sum(lag.routed < lag.finished for lag in every_lag),
        work_clamped=sum(_work_left(lag) != lag.unfinished_mflop for lag in every_lag),
    )


def _pool_lag(
    pool: Pool, names: TopicNames, counts: Counts, arrivals: Arrivals
) -> tuple[PartitionLag, ...]:
    topics = names.of_pool(pool)
    known = counts.finished.keys() | counts.routed.keys()
    return tuple(
        _partition_lag(
            [(topic, partition) for topic in topics],
            counts,
            counts.work.get((pool.name, partition), 0),
            arrivals,
        )
        for partition in _partitions(known, *topics)
    )


def _partition_lag(
    places: list[Place], counts: Counts, routed_mflop: int, arrivals: Arrivals
) -> PartitionLag:
    done = [counts.finished.get(place, NOTHING_FINISHED) for place in places]
    oldest = [
        arrivals[place] for place in places if place in arrivals and counts.unfinished(place) > 0
    ]
    lag = PartitionLag(
        routed=sum(counts.routed.get(place, 0) for place in places),
        finished=sum(said.finished for said in done),
        unfinished=0,
        routed_mflop=routed_mflop % MFLOP_WRAP,
        finished_mflop=sum(said.work for said in done) % MFLOP_WRAP,
    )
    unfinished = max(0, lag.routed - lag.finished)
    if not unfinished:
        return lag
    left = {
        "unfinished": unfinished,
        "unfinished_mflop": max(0, _work_left(lag)),
        "oldest_at_ms": min(oldest, default=None),
    }
    return lag.model_copy(update=left)


def _work_left(lag: PartitionLag) -> int:
    return mflop_ahead(lag.routed_mflop, lag.finished_mflop)


def _sums(
    counts: Iterable[Mapping[str, tuple[int, ...]]], prefix: str
) -> dict[tuple[str, int], int]:
    """Add up counts by name and partition; inputs may know of different numbers of partitions."""
    rows: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for by_name in counts:
        for name, numbers in by_name.items():
            rows[name].append(numbers)
    return {
        (prefix + name, partition): sum(column)
        for name, of_inputs in rows.items()
        for partition, column in enumerate(zip_longest(*of_inputs, fillvalue=0))
    }


def _finished(committed: Committed | None) -> FinishedCounts:
    """Return the counts in a commit; the first one of a new partition has none yet."""
    if committed is None or not committed.metadata:
        return NOTHING_FINISHED
    return _decode_finished(committed.metadata)


def _included(routed: Commits, topic: str) -> tuple[int, ...]:
    offsets = (routed.get((topic, partition)) for partition in _partitions(routed, topic))
    return tuple(NO_COMMIT if known is None else known.offset for known in offsets)


def _partitions(places: Iterable[Place], *topics: str) -> range:
    """Return the partitions of these topics, up to the highest that any place names."""
    return range(max((partition + 1 for topic, partition in places if topic in topics), default=0))
