"""Lag is a recount: the sample says what is left of what was routed, never less than 0."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.offsets import Committed
from schemas.metadata import FinishedCounts, RouterCounts, encode_finished, encode_router
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from streams.control.lag import Commits, Reading, fold_lag

NAMES = TopicNames("t.")
PARTITIONS = 3
INPUTS = [(topic, i) for topic in (NAMES.requests, NAMES.retry) for i in range(PARTITIONS)]
LANES = [
    (pool.name, topic, partition)
    for pool in DEFAULT_POOLS
    for topic in TopicNames("").of_pool(pool)
    for partition in range(PARTITIONS)
]

routings = st.lists(
    st.tuples(st.integers(0, len(INPUTS) - 1), st.integers(0, len(LANES) - 1)), max_size=80
)
"""One record each: which input partition it came from and which lane it was routed to."""


def commits_of_routers(routed: list[tuple[int, int]]) -> Commits:
    commits: dict[tuple[str, int], Committed | None] = {}
    for index, place in enumerate(INPUTS):
        counts = {topic: [0] * PARTITIONS for _, topic, _ in LANES}
        mine = [LANES[lane] for source, lane in routed if source == index]
        for _, topic, partition in mine:
            counts[topic][partition] += 1
        metadata = encode_router(
            RouterCounts({topic: tuple(row) for topic, row in counts.items()}, consumed=len(mine))
        )
        commits[place] = Committed(len(mine), metadata) if mine else None
    return commits


def commits_of_nodes(finished: list[tuple[int, int]]) -> Commits:
    commits: dict[tuple[str, int], Committed | None] = {}
    for index, (_, topic, partition) in enumerate(LANES):
        count = sum(lane == index for _, lane in finished)
        commits["t." + topic, partition] = (
            Committed(count, encode_finished(FinishedCounts(count, count))) if count else None
        )
    return commits


@given(routings, st.data())
def test_the_sample_is_what_a_recount_of_the_records_gives(
    routed: list[tuple[int, int]], data: st.DataObject
) -> None:
    done = data.draw(st.sets(st.sampled_from(range(len(routed))))) if routed else set()
    finished = [routed[i] for i in sorted(done)]
    sample = fold_lag(
        Reading(commits_of_nodes(finished), commits_of_routers(routed), 0, 1.0),
        NAMES,
        DEFAULT_POOLS,
    )
    for pool in DEFAULT_POOLS:
        for partition in range(PARTITIONS):
            here = [
                i
                for i, (_, lane) in enumerate(routed)
                if LANES[lane][::2] == (pool.name, partition)
            ]
            lag = sample.pools[pool.name][partition]
            assert lag.unfinished == len(set(here) - done)
            assert (lag.routed, lag.finished) == (len(here), len(set(here) & done))
    assert sample.consumed == len(routed)
    assert sample.clamped == 0


@given(routings, routings)
def test_lag_is_never_below_zero_and_each_clamp_is_counted(
    routed: list[tuple[int, int]], finished: list[tuple[int, int]]
) -> None:
    sample = fold_lag(
        Reading(commits_of_nodes(finished), commits_of_routers(routed), 0, 1.0),
        NAMES,
        DEFAULT_POOLS,
    )
    lags = [lag for pool in sample.pools.values() for lag in pool]
    assert all(lag.unfinished == max(0, lag.routed - lag.finished) for lag in lags)
    assert sample.clamped == sum(lag.finished > lag.routed for lag in lags)
