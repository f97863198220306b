"""Lag by counting: what routers have routed less what nodes have finished, per pool partition.

Pure: committed offsets with their metadata in, one sample out. Offsets themselves are never
subtracted: every transaction leaves a marker behind, so they overstate a queue up to two times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from runtime.kafka.offsets import Committed
from schemas.control import LagSample, PartitionLag
from schemas.metadata import FinishedCounts, RouterCounts, decode_finished, decode_router
from schemas.pools import Pool
from schemas.topics import TopicNames

NO_COMMIT = -1
NOTHING_FINISHED = FinishedCounts(finished=0, frontier=0)

_BARE = TopicNames("")  # metadata names topics without the prefix

Commits = Mapping[tuple[str, int], "Committed | None"]
"""What a group committed for each partition asked for; None where it never did."""
Finished = Mapping[tuple[str, int], FinishedCounts]


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


def fold_lag(reading: Reading, names: TopicNames, pools: Iterable[Pool]) -> LagSample:
    """Return the sample that a reading says.

    A difference below zero is shown as 0 and counted: it means that counts were lost, never that a
    queue is shorter than empty.

    Raises:
        FormatError: metadata that is not ours; nothing can be said then.
    """
    counts = [
        decode_router(committed.metadata)
        for committed in reading.routed.values()
        if committed is not None and committed.metadata
    ]
    done = {place: _finished(committed) for place, committed in reading.finished.items()}
    lags = {pool.name: _pool_lag(pool, names, done, counts) for pool in pools}
    return LagSample(
        probed_at_ms=reading.probed_at_ms,
        took_ms=reading.took_ms,
        pools=lags,
        requests_included=_included(reading.routed, names.requests),
        retry_included=_included(reading.routed, names.retry),
        consumed=sum(count.consumed for count in counts),
        dead=sum(count.dead for count in counts),
        expired=sum(count.expired for count in counts),
        unroutable=sum(count.unroutable for count in counts),
        duplicate=sum(count.duplicate for count in counts),
        finished_dead=sum(count.dead for count in done.values()),
        finished_expired=sum(count.expired for count in done.values()),
        clamped=sum(lag.routed < lag.finished for pool in lags.values() for lag in pool),
    )


def _pool_lag(
    pool: Pool, names: TopicNames, done: Finished, counts: Iterable[RouterCounts]
) -> tuple[PartitionLag, ...]:
    routed: dict[int, int] = dict.fromkeys(_partitions(done, names.pool(pool.name)), 0)
    for count in counts:
        for topic in _BARE.of_pool(pool):
            for partition, records in enumerate(count.routed.get(topic, ())):
                # One that was added a moment ago may be routed to before we ask what it finished.
                routed[partition] = routed.get(partition, 0) + records
    return tuple(
        _partition_lag(
            records,
            sum(
                done.get((topic, partition), NOTHING_FINISHED).finished
                for topic in names.of_pool(pool)
            ),
        )
        for partition, records in sorted(routed.items())
    )


def _partition_lag(routed: int, finished: int) -> PartitionLag:
    return PartitionLag(routed=routed, finished=finished, unfinished=max(0, routed - finished))


def _finished(committed: Committed | None) -> FinishedCounts:
    """Return the counts in a commit; the first one of a new partition has none yet."""
    if committed is None or not committed.metadata:
        return NOTHING_FINISHED
    return decode_finished(committed.metadata)


def _included(routed: Commits, topic: str) -> tuple[int, ...]:
    offsets = (routed[topic, partition] for partition in _partitions(routed, topic))
    return tuple(NO_COMMIT if known is None else known.offset for known in offsets)


def _partitions(commits: Iterable[tuple[str, int]], topic: str) -> list[int]:
    return sorted(partition for name, partition in commits if name == topic)
