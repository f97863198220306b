"""Lag is a recount, in records and in work: what is left of what was routed, never less than 0."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.offsets import Committed
from schemas.metadata import FinishedCounts, RouterCounts, encode_finished, encode_router
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from schemas.work import MFLOP_MAX, MFLOP_WRAP, mflop_of
from streams.control.lag import Commits, Reading, count, fold_lag, lowest_unfinished

NAMES = TopicNames("t.")
PARTITIONS = 3
INPUTS = [(topic, i) for topic in (NAMES.requests, NAMES.retry) for i in range(PARTITIONS)]
LANES = [
    (pool.name, topic, partition)
    for pool in DEFAULT_POOLS
    for topic in TopicNames("").of_pool(pool)
    for partition in range(PARTITIONS)
]


class Routed(NamedTuple):
    """One record: which input partition it came from, which lane it was routed to, its estimate."""

    source: int
    lane: int
    gflops: float | None


routings = st.lists(
    st.builds(
        Routed,
        st.integers(0, len(INPUTS) - 1),
        st.integers(0, len(LANES) - 1),
        st.none() | st.floats(0, 1e5) | st.just(1e15),
    ),
    max_size=80,
)
begins = st.sampled_from([0, MFLOP_WRAP - MFLOP_MAX, MFLOP_WRAP - 1])
"""What a count of work has come to before: it may begin again at 0 while it is compared."""


def commits_of_routers(routed: list[Routed], begin: int = 0) -> Commits:
    commits: dict[tuple[str, int], Committed | None] = {}
    for index, place in enumerate(INPUTS):
        counts = {topic: [0] * PARTITIONS for _, topic, _ in LANES}
        # The first input routed all that was routed before.
        work = {pool.name: [0 if index else begin] * PARTITIONS for pool in DEFAULT_POOLS}
        mine = [record for record in routed if record.source == index]
        for record in mine:
            pool, topic, partition = LANES[record.lane]
            counts[topic][partition] += 1
            work[pool][partition] += mflop_of(record.gflops)
        said = RouterCounts(
            {topic: tuple(row) for topic, row in counts.items()},
            consumed=len(mine),
            work={pool: tuple(row) for pool, row in work.items()},
        )
        commits[place] = Committed(len(mine), encode_router(said)) if mine or not index else None
    return commits


def commits_of_nodes(finished: list[Routed], begin: int = 0) -> Commits:
    commits: dict[tuple[str, int], Committed | None] = {}
    own = {pool.name for pool in DEFAULT_POOLS}
    for index, (_, topic, partition) in enumerate(LANES):
        here = [record for record in finished if record.lane == index]
        work = sum(mflop_of(record.gflops) for record in here) + begin * (topic in own)
        said = FinishedCounts(len(here), len(here), work=work)
        known = here or (begin and topic in own)
        commits["t." + topic, partition] = (
            Committed(len(here), encode_finished(said)) if known else None
        )
    return commits


@given(routings, begins, st.data())
def test_the_sample_is_what_a_recount_of_the_records_gives(
    routed: list[Routed], begin: int, data: st.DataObject
) -> None:
    done = data.draw(st.sets(st.sampled_from(range(len(routed))))) if routed else set()
    finished = [routed[i] for i in sorted(done)]
    sample = fold_lag(
        Reading(commits_of_nodes(finished, begin), commits_of_routers(routed, begin), 0, 1.0),
        NAMES,
        DEFAULT_POOLS,
    )
    for pool in DEFAULT_POOLS:
        for partition in range(PARTITIONS):
            here = {
                i
                for i, record in enumerate(routed)
                if LANES[record.lane][::2] == (pool.name, partition)
            }
            lag = sample.pools[pool.name][partition]
            assert lag.unfinished == len(here - done)
            assert (lag.routed, lag.finished) == (len(here), len(here & done))
            assert lag.unfinished_mflop == sum(mflop_of(routed[i].gflops) for i in here - done)
    assert sample.consumed == len(routed)
    assert (sample.clamped, sample.work_clamped) == (0, 0)


@given(routings, routings)
def test_lag_is_never_below_zero_and_each_clamp_is_counted(
    routed: list[Routed], finished: list[Routed]
) -> None:
    sample = fold_lag(
        Reading(commits_of_nodes(finished), commits_of_routers(routed), 0, 1.0),
        NAMES,
        DEFAULT_POOLS,
    )
    lags = [lag for pool in sample.pools.values() for lag in pool]
    assert all(lag.unfinished == max(0, lag.routed - lag.finished) for lag in lags)
    assert sample.clamped == sum(lag.finished > lag.routed for lag in lags)
    drifts = 0
    for lag in lags:
        left = sum(
            mflop_of(record.gflops) * sign
            for records, sign in ((routed, 1), (finished, -1))
            for record in records
            if sample.pools[LANES[record.lane][0]][LANES[record.lane][2]] is lag
        )
        assert lag.unfinished_mflop == (max(0, left) if lag.unfinished else 0)
        drifts += left != lag.unfinished_mflop
    assert sample.work_clamped == drifts


@given(routings, st.data())
def test_the_oldest_unfinished_record_is_looked_for_wherever_one_is_left_and_nowhere_else(
    routed: list[Routed], data: st.DataObject
) -> None:
    done = data.draw(st.sets(st.sampled_from(range(len(routed))))) if routed else set()
    finished = [routed[i] for i in sorted(done)]
    reading = Reading(commits_of_nodes(finished), commits_of_routers(routed), 0, 1.0)
    left = [record for i, record in enumerate(routed) if i not in done]
    wanted = lowest_unfinished(count(reading, NAMES))
    assert wanted == {
        ("t." + LANES[lane][1], LANES[lane][2]): sum(record.lane == lane for record in finished)
        for lane in {record.lane for record in left}
    }
    arrivals = {place: 1_000 + number for number, place in enumerate(wanted)}
    stale = {("t.gpu", 0): 5, ("t.gpu.express", 0): 5, **arrivals}
    sample = fold_lag(reading, NAMES, DEFAULT_POOLS, stale)
    for pool, lags in sample.pools.items():
        for partition, lag in enumerate(lags):
            here = [
                at_ms
                for (topic, number), at_ms in arrivals.items()
                if topic in (f"t.{pool}", f"t.{pool}.express") and number == partition
            ]
            assert lag.oldest_at_ms == min(here, default=None)
