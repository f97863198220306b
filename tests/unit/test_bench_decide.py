"""The benchmark of the decision measures what it says."""

from __future__ import annotations

from lab.benches.decide import PARTITIONS, bench_decide
from streams.policy import POLICIES


def test_it_reports_every_policy_on_every_kind_of_request_at_both_sizes() -> None:
    cost = bench_decide(batches=2)
    assert (cost.pools, cost.nodes_per_pool) == (3, 8)
    assert [one.policy for one in cost.policies] == list(POLICIES)
    assert len({tuple((c.name, c.partitions) for c in one.cases) for one in cost.policies}) == 1
    for one in cost.policies:
        assert {case.partitions for case in one.cases} == set(PARTITIONS)
        assert len({case.name for case in one.cases}) * len(PARTITIONS) == len(one.cases)
        assert cost.decisions == len(one.cases) * 2 * 50
        assert 0 < one.median_us <= one.p99_us
        assert all(0 < case.median_us <= case.p99_us for case in one.cases)
    assert cost.advance_us > 0
    assert cost.load_us > cost.advance_us
