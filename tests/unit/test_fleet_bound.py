"""The least fleet is what one computes by hand, and no dearer than whatever a search finds."""

from __future__ import annotations

import pytest

from lab.savings.fleet_bound import least_fleet_cost
from lab.savings.fleet_search import smallest_fleet
from lab.simulator.fleet import read_fleet
from lab.simulator.traces import Arrival
from lab.simulator.workload import Asked, workload
from schemas.errors import OverspillError
from schemas.pools import CPU, GPU
from schemas.request import Priority
from streams.policy import policy
from tests.simulated import fleet, pool, request

TWO = fleet(pool(GPU, slots=2, run_ms=10_000), pool(CPU, run_ms=60_000, cost=0.1))
"""A gpu node has two slots and costs 2.0, a cpu node has one and costs 0.1."""


def normal(number: int, slo_s: float, at_s: float = 0.0) -> Asked:
    return request(number, at_s * 1000, Priority.NORMAL, slo_ms=slo_s * 1000)


@pytest.mark.parametrize(
    ("requests", "attainment", "cost"),
    [
        ([normal(0, 60)], 0.99, 0.1),
        ([normal(0, 59)], 0.99, 2.0),
        ([normal(0, 60), normal(1, 60)], 0.99, 0.2),
        ([request(0, 0, Priority.REALTIME, slo_ms=20_000)], 0.99, 2.0),
        # One may be late, and still runs within the two minutes that may be owed.
        ([normal(0, 60), normal(1, 60)], 0.5, 0.1),
        # Without an objective three are too many for one cpu in two minutes.
        ([request(n, 0) for n in range(2)], 0.99, 0.1),
        ([request(n, 0) for n in range(3)], 0.99, 0.2),
    ],
)
def test_the_least_fleet_holds_the_work_in_time(
    requests: list[Asked], attainment: float, cost: float
) -> None:
    found = least_fleet_cost(TWO, requests, attainment, whole_nodes=True)
    assert found == pytest.approx(cost)


def test_parts_of_a_slot_are_enough_where_nodes_need_not_be_whole() -> None:
    # Ten seconds of a gpu slot in sixty.
    found = least_fleet_cost(TWO, [normal(0, 59)], whole_nodes=False, window_s=60.0)
    assert found == pytest.approx(10 / 60)


def test_objectives_that_nothing_can_meet_have_no_fleet() -> None:
    with pytest.raises(OverspillError, match="ask for fewer"):
        least_fleet_cost(TWO, [normal(0, 5)], whole_nodes=True)


def test_no_search_finds_a_cheaper_one() -> None:
    requests = workload([Arrival(number * 400.0, 2_000, 150) for number in range(150)], 1)
    found = smallest_fleet(read_fleet(), requests, policy("predictive"))
    assert found is not None
    whole = least_fleet_cost(read_fleet(), requests, whole_nodes=True)
    parts = least_fleet_cost(read_fleet(), requests, whole_nodes=False)
    assert parts <= whole + 1e-6 <= found.cost_per_s + 2e-6
