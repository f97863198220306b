"""Each number of the lag table follows its formula, and none is negative, infinite or no number."""

from __future__ import annotations

import pytest

from schemas.control import LagSample, NodeState, PartitionLag
from streams.control.lag_table import LagLine, LagTable
from streams.control.rates import Pace

NOW_MS = 100_000
IDLE = LagLine(
    routed=9,
    finished=9,
    unfinished=0,
    oldest_age_s=0.0,
    arrival_rate=0.0,
    finish_rate=0.0,
    drain_s=0.0,
    work_gflops=0.0,
    work_s=0.0,
)


def lag(unfinished: int = 0, mflop: int = 0, oldest_at_ms: int | None = None) -> PartitionLag:
    return PartitionLag(
        routed=9 + unfinished,
        finished=9,
        unfinished=unfinished,
        unfinished_mflop=mflop,
        oldest_at_ms=oldest_at_ms,
    )


def node(name: str, *partitions: int, latency_ms: float = 100.0, live: bool = True) -> NodeState:
    return NodeState(
        id=name, pool="gpu", live=live, slots=2, partitions=partitions, latency_ms=latency_ms
    )


def table(
    *lags: PartitionLag, paces: tuple[Pace, ...] | None = None, nodes: tuple[NodeState, ...] = ()
) -> LagTable:
    sample = LagSample(
        probed_at_ms=NOW_MS,
        took_ms=1.0,
        pools={"gpu": lags},
        requests_included=(),
        retry_included=(),
    )
    rates = {"gpu": (Pace(),) * len(lags) if paces is None else paces}
    return LagTable(sample, rates, nodes, NOW_MS)


def test_an_idle_line_is_0_in_every_number_but_the_totals() -> None:
    idle = table(lag(), lag(), nodes=(node("a", 0), node("b", 1)))
    assert idle.nodes() == {"a": IDLE, "b": IDLE}
    assert idle.partitions() == {"gpu": (IDLE, IDLE)}


def test_a_node_has_the_sums_of_its_partitions_and_the_age_of_its_oldest_record() -> None:
    lags = (lag(3, 3_000, NOW_MS - 2_000), lag(), lag(1, 500, NOW_MS - 7_000), lag(5, 1, NOW_MS))
    paces = (Pace(arriving=1.0, finishing=2.0), Pace(), Pace(finishing=0.5), Pace())
    shown = table(*lags, paces=paces, nodes=(node("a", 0, 1, 2), node("b", 3)))
    line = shown.nodes()["a"]
    assert (line.unfinished, line.routed, line.finished) == (4, 31, 27)
    assert line.oldest_age_s == 7.0
    assert (line.arrival_rate, line.finish_rate) == (1.0, 2.5)
    assert line.work_gflops == 3.5
    assert shown.pools()["gpu"].unfinished == 9


def test_time_to_drain_is_unfinished_by_finish_rate_and_nothing_where_that_is_0() -> None:
    assert table(lag(6), paces=(Pace(finishing=4.0),)).pools()["gpu"].drain_s == 1.5
    assert table(lag(6)).pools()["gpu"].drain_s is None
    assert table(lag()).pools()["gpu"].drain_s == 0.0


@pytest.mark.parametrize(
    ("mflop", "finishing_mflop", "nodes", "work_s"),
    [
        (8_000, 2_000.0, (), 4.0),
        (8_000, 0.0, (node("a", 0, latency_ms=300),), 1.5),  # 10 records x 300 ms / 2 slots
        (0, 2_000.0, (node("a", 0, latency_ms=300),), 1.5),  # without estimates
        (8_000, 0.0, (node("a", 0, live=False),), None),
        (8_000, 0.0, (), None),
    ],
)
def test_seconds_of_work_are_measured_if_work_is_finished_else_told_from_slots(
    mflop: int, finishing_mflop: float, nodes: tuple[NodeState, ...], work_s: float | None
) -> None:
    paces = (Pace(finishing_mflop=finishing_mflop),)
    assert table(lag(10, mflop), paces=paces, nodes=nodes).pools()["gpu"].work_s == work_s


def test_an_age_is_never_negative_and_not_told_before_it_is_known() -> None:
    assert table(lag(1, 0, NOW_MS + 50)).pools()["gpu"].oldest_age_s == 0.0
    assert table(lag(1, 0, None)).pools()["gpu"].oldest_age_s is None
    assert table(lag(1, 0, None), lag(1, 0, NOW_MS - 1_000)).pools()["gpu"].oldest_age_s == 1.0


def test_without_a_control_plane_no_rate_is_told() -> None:
    sample = LagSample(
        probed_at_ms=0, took_ms=1, pools={"gpu": (lag(2),)}, requests_included=(),
        retry_included=(),
    )  # fmt: skip
    line = LagTable(sample, None, (), NOW_MS).pools()["gpu"]
    assert (line.arrival_rate, line.finish_rate, line.drain_s) == (None, None, None)
    assert line.unfinished == 2


def test_a_partition_added_since_the_rates_were_measured_has_none_yet() -> None:
    lines = table(lag(1), lag(1), paces=(Pace(finishing=2.0),)).partitions()["gpu"]
    assert [line.finish_rate for line in lines] == [2.0, 0.0]


def test_a_node_that_owns_a_partition_not_counted_yet_has_a_line_without_it() -> None:
    assert table(lag(1), nodes=(node("a", 0, 7),)).nodes()["a"].unfinished == 1
