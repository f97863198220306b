"""The lower bound is what one computes by hand, and below whatever any policy comes to."""

from __future__ import annotations

import pytest

from lab.savings.bound import lower_bound
from lab.simulator.fleet import read_fleet
from lab.simulator.measures import measure
from lab.simulator.run import simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import Asked, workload
from schemas.pools import CPU, GPU
from schemas.request import Priority
from streams.policy import POLICIES
from tests.simulated import fleet, pool, request

TWO = fleet(pool(GPU, slots=2, run_ms=10_000), pool(CPU, run_ms=60_000, cost=0.1))
"""A request costs 10 on the gpu and 6 on the cpu, whose slot runs one a minute."""


def normal(number: int, slo_s: float, at_s: float = 0.0) -> Asked:
    return request(number, at_s * 1000, Priority.NORMAL, slo_ms=slo_s * 1000)


@pytest.mark.parametrize(
    ("requests", "cost"),
    [
        ([normal(0, 60)], 6.0),
        ([normal(0, 59)], 10.0),
        ([request(0, 0, Priority.REALTIME, slo_ms=90_000)], 10.0),
        # The cpu's slot is open for 90 s to both of them: one and a half runs.
        ([normal(0, 90), normal(1, 90)], 1.5 * 6.0 + 0.5 * 10.0),
        ([normal(0, 60), normal(1, 60, at_s=60)], 12.0),
        # Without an objective both wait for the cpu.
        ([request(0, 0), request(1, 0)], 12.0),
        # Nobody can be in time, so it may run where it is cheapest.
        ([normal(0, 5)], 6.0),
    ],
)
def test_the_bound_obeys_slots_and_times(requests: list[Asked], cost: float) -> None:
    assert lower_bound(TWO, requests, window_s=30.0).metered_cost == pytest.approx(cost)


def test_solving_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    lower_bound(TWO, [normal(0, 60)])
    assert capfd.readouterr().out == ""


def test_whole_runs_are_on_one_pool_only() -> None:
    requests = [normal(0, 90), normal(1, 90)]
    whole = lower_bound(TWO, requests, window_s=30.0, whole=True)
    assert whole.metered_cost == pytest.approx(6.0 + 10.0)


def test_gpus_that_cannot_hold_urgent_work_do_not_limit_the_bound() -> None:
    requests = [request(n, 0, Priority.REALTIME, slo_ms=20_000) for n in range(5)]
    crowded = lower_bound(TWO, requests, window_s=20.0)
    assert (crowded.metered_cost, crowded.gpus_limited) == (50.0, False)
    assert lower_bound(TWO, requests[:4], window_s=20.0).gpus_limited


def test_no_policy_undercuts_it_that_meets_all_objectives() -> None:
    requests = workload([Arrival(number * 400.0, 2_000, 150) for number in range(150)], 1)
    least = lower_bound(read_fleet(), requests).metered_cost
    for policy in POLICIES.values():
        found = measure(simulate(read_fleet(), requests, policy), read_fleet(), policy)
        assert found.metered_cost >= least or found.slo_attainment < 1.0
        if policy.name == "predictive":
            assert found.slo_attainment == 1.0
            assert found.metered_cost < 1.25 * least
