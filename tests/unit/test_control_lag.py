from __future__ import annotations

import pytest

from runtime.kafka.offsets import Committed
from schemas.control import LagSample, PartitionLag
from schemas.errors import FormatError
from schemas.metadata import FinishedCounts, RouterCounts, encode_finished, encode_router
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from streams.control.lag import Commits, Reading, fold_lag
from streams.control.rates import LagRow, fold_sample

NAMES = TopicNames("t.")
NOTHING: Commits = {
    (topic, partition): None
    for topic in ("t.gpu", "t.gpu.express", "t.cpu", "t.npu")
    for partition in range(2)
}
UNTOUCHED: Commits = {
    (topic, partition): None for topic in ("t.requests", "t.retry") for partition in range(2)
}


def sample_of(finished: Commits = NOTHING, routed: Commits = UNTOUCHED) -> LagSample:
    return fold_lag(Reading(finished, routed, 1_000, 4.0), NAMES, DEFAULT_POOLS)


def router_commit(routed: dict[str, tuple[int, ...]], offset: int = 9) -> Committed:
    total = sum(map(sum, routed.values()))
    return Committed(offset, encode_router(RouterCounts(routed, consumed=total)))


def test_before_any_commit_everything_is_zero_and_no_input_is_included() -> None:
    sample = sample_of()
    assert {name: [lag.unfinished for lag in lags] for name, lags in sample.pools.items()} == {
        "gpu": [0, 0],
        "cpu": [0, 0],
        "npu": [0, 0],
    }
    assert (sample.requests_included, sample.retry_included) == ((-1, -1), (-1, -1))


def test_express_and_normal_work_of_a_pool_partition_are_one_lag() -> None:
    routed = {
        **UNTOUCHED,
        ("t.requests", 0): router_commit({"gpu": (5, 1), "gpu.express": (2, 0)}, offset=8),
        ("t.retry", 1): router_commit({"gpu": (1, 0)}, offset=1),
    }
    finished = {
        **NOTHING,
        ("t.gpu", 0): Committed(3, encode_finished(FinishedCounts(3, 4, (3,)))),
        ("t.gpu.express", 0): Committed(2, encode_finished(FinishedCounts(2, 2))),
    }
    sample = sample_of(finished, routed)
    assert sample.pools["gpu"] == (
        PartitionLag(routed=8, finished=5, unfinished=3),
        PartitionLag(routed=1, finished=0, unfinished=1),
    )
    assert (sample.requests_included, sample.retry_included) == ((8, -1), (-1, 1))


def test_what_nodes_gave_up_is_told_apart_from_what_routers_did() -> None:
    commit = Committed(4, encode_router(RouterCounts({}, consumed=3, dead=2, expired=1)))
    counts = FinishedCounts(9, 9, dead=4, expired=3)
    sample = sample_of(
        {**NOTHING, ("t.cpu", 0): Committed(9, encode_finished(counts)),
         ("t.npu", 1): Committed(9, encode_finished(counts))},
        {**UNTOUCHED, ("t.requests", 0): commit},
    )  # fmt: skip
    assert (sample.dead, sample.expired) == (2, 1)
    assert (sample.finished_dead, sample.finished_expired) == (8, 6)


def test_a_commit_without_metadata_is_a_first_start() -> None:
    assert sample_of({**NOTHING, ("t.gpu", 0): Committed(0, "")}).pools["gpu"][0].finished == 0


def test_metadata_of_another_program_makes_no_sample() -> None:
    with pytest.raises(FormatError):
        sample_of({**NOTHING, ("t.gpu", 0): Committed(7, "kcat was here")})


def test_a_partition_routed_to_before_it_was_asked_for_counts_as_unfinished() -> None:
    routed = {**UNTOUCHED, ("t.requests", 0): router_commit({"cpu": (0, 0, 4)})}
    assert [lag.unfinished for lag in sample_of(NOTHING, routed).pools["cpu"]] == [0, 0, 4]


def test_work_left_by_an_older_release_or_a_broken_record_does_not_stay_when_all_is_finished() -> (
    None
):
    counts = RouterCounts({"cpu": (2, 0)}, consumed=2, work={"cpu": (900, 0)})
    routed = {**UNTOUCHED, ("t.requests", 0): Committed(2, encode_router(counts))}

    def sample(finished: int, work: int) -> LagSample:
        said = encode_finished(FinishedCounts(finished, finished, work=work))
        return sample_of({**NOTHING, ("t.cpu", 0): Committed(finished, said)}, routed)

    one_left, none_left, below = sample(1, 400), sample(2, 400), sample(1, 901)
    assert [s.pools["cpu"][0].unfinished_mflop for s in (one_left, none_left, below)] == [500, 0, 0]
    assert [s.work_clamped for s in (one_left, none_left, below)] == [0, 1, 1]


def finished_at(ms: int, finished: int, routed: int = 1_000) -> LagSample:
    lag = PartitionLag(
        routed=routed,
        finished=finished,
        unfinished=routed - finished,
        finished_mflop=finished * 30,
    )
    return LagSample(
        probed_at_ms=ms, took_ms=3.0, pools={"gpu": (lag,)}, requests_included=(), retry_included=()
    )


def row_after(*samples: LagSample) -> LagRow:
    row = None
    for sample in samples:
        row = fold_sample(row, sample)
    assert row is not None
    return row


def test_a_steady_rate_is_found_whatever_the_distance_of_the_samples() -> None:
    for every_ms in (50, 100, 700):
        samples = [finished_at(ms, ms * 80 // 1000) for ms in range(0, 10_000, every_ms)]
        assert row_after(*samples).paces["gpu"][0].finish_rate == pytest.approx(80, rel=0.05)


def test_after_the_last_finish_the_rate_falls_to_a_third_in_a_second() -> None:
    busy = [finished_at(ms, ms * 80 // 1000) for ms in range(0, 10_001, 100)]
    idle = [finished_at(ms, 800) for ms in range(10_100, 11_001, 100)]
    assert row_after(*busy, *idle).paces["gpu"][0].finish_rate == pytest.approx(80 * 0.37, rel=0.05)


def test_the_steady_rates_find_a_slow_partition_and_come_to_0_when_it_stands_still() -> None:
    slow = [finished_at(ms, ms // 4_000, 1_000 + ms // 2_000) for ms in range(0, 80_001, 100)]
    pace = row_after(*slow).paces["gpu"][0]
    assert pace.finishing == pytest.approx(0.25, rel=0.25)
    assert pace.arriving == pytest.approx(0.5, rel=0.25)
    assert pace.finishing_mflop == pytest.approx(pace.finishing * 30)
    still = [finished_at(ms, 20, 1_040) for ms in range(80_100, 160_001, 100)]
    stopped = row_after(*slow, *still).paces["gpu"][0]
    assert (stopped.arriving, stopped.finishing, stopped.finishing_mflop) == (0, 0, 0)


def test_a_sample_read_twice_or_by_a_slow_clock_changes_no_rate() -> None:
    once = row_after(finished_at(0, 0), finished_at(100, 8))
    assert fold_sample(once, finished_at(100, 8)) == once
    assert fold_sample(once, finished_at(40, 9)).paces == once.paces


def test_counts_that_begin_again_are_no_negative_rate() -> None:
    pace = row_after(finished_at(0, 500), finished_at(100, 0, routed=0)).paces["gpu"][0]
    assert (pace.finish_rate, pace.arriving, pace.finishing_mflop) == (0, 0, 0)


def test_a_new_partition_begins_without_a_history() -> None:
    lag = PartitionLag(routed=9, finished=9, unfinished=0)
    wider = finished_at(100, 8).model_copy(
        update={"pools": {"gpu": (*finished_at(100, 8).pools["gpu"], lag)}}
    )
    row = row_after(finished_at(0, 0), wider)
    assert [pace.finish_rate > 0 for pace in row.paces["gpu"]] == [True, False]


def test_standing_still_is_timed_until_a_count_moves() -> None:
    still = row_after(*(finished_at(ms, 3) for ms in range(0, 1_001, 100)))
    assert still.paces["gpu"][0].still_ms == 1_000
    assert fold_sample(still, finished_at(1_100, 4)).paces["gpu"][0].still_ms == 0
