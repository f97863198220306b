"""The benchmark of the decision measures what it says."""

from __future__ import annotations

from lab.bench_decide import PARTITIONS, bench_decide


def test_it_reports_every_kind_of_request_at_both_sizes() -> None:
    cost = bench_decide(batches=2)
    assert (cost.pools, cost.nodes_per_pool) == (3, 8)
    assert {case.partitions for case in cost.cases} == set(PARTITIONS)
    assert len({case.name for case in cost.cases}) * len(PARTITIONS) == len(cost.cases)
    assert cost.decisions == len(cost.cases) * 2 * 50
    assert 0 < cost.median_us <= cost.p99_us
    assert all(0 < case.median_us <= case.p99_us for case in cost.cases)
    assert cost.advance_us > 0
    assert cost.load_us > cost.advance_us
