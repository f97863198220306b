"""How soon routers notice what happens to nodes and to control.

In virtual time, with the real folds, view and policy. docs/control.md states the same bounds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from schemas.control import NODE_TTL_S
from schemas.outcomes import Mode, Reason
from streams.router.outlook import BLIND_AFTER_S, STALE_AFTER_S
from tests.virtual import DELIVERY_S, PROBE_S, REPORT_S, VirtualNode, World

HEARD_WITHIN_S = PROBE_S + DELIVERY_S
"""From what control knows to what a router decides by."""

SLOW_AFTER_REQUESTS = 200
"""So many requests of its pool after a node became slow, it has lost its traffic."""
EVEN_SHARE_LEFT = 0.7
"""Of an even share, what a node that takes three times as long then gets at most."""


def gpus(count: int) -> list[VirtualNode]:
    return [VirtualNode(f"gpu-{n}", tuple(range(n, 8, count))) for n in range(count)]


def cpu() -> VirtualNode:
    return VirtualNode("cpu-1", (0,), slots=500, run_s=0.8)


def arrivals(rate: float, seed: int = 0) -> Iterator[float]:
    """Yield the seconds between requests that come at random, so many a second."""
    draw = random.Random(seed)
    return (draw.expovariate(rate) for _ in itertools.count())


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("load", [0.3, 0.5, 0.7])
def test_a_node_that_becomes_three_times_slower_loses_its_traffic_within_200_requests(
    nodes: int, load: float
) -> None:
    for seed in range(3):
        fleet = gpus(nodes)
        world = World(*fleet, cpu(), partitions=8)
        rate = load * nodes * fleet[0].slots / fleet[0].run_s
        coming = arrivals(rate, seed)
        world.traffic(coming, 3.0)
        fleet[0].run_s *= 3
        decided = world.traffic(coming, 3.0 + 500 / rate)
        after = [each.decision.node for each in decided if each.decision.pool == "gpu"]
        then = after[SLOW_AFTER_REQUESTS : 2 * SLOW_AFTER_REQUESTS]
        assert len(then) == SLOW_AFTER_REQUESTS
        assert then.count("gpu-0") / len(then) <= EVEN_SHARE_LEFT / nodes


def test_a_node_that_dies_is_down_once_its_last_report_is_three_seconds_old() -> None:
    fleet = gpus(2)
    world = World(*fleet, cpu(), partitions=8)
    world.run_to(2.9)
    fleet[0].reports = False  # the last one came at 2.5 s
    down_s = 2.5 + NODE_TTL_S
    world.run_to(down_s)
    world.route()
    assert world.outlook.view.pool("gpu").live.keys() == {"gpu-0", "gpu-1"}
    world.run_to(down_s + HEARD_WITHIN_S)
    world.route()
    assert world.outlook.view.pool("gpu").live.keys() == {"gpu-1"}


def test_a_pool_whose_nodes_all_died_spills_and_gets_its_traffic_back_with_them() -> None:
    fleet = gpus(2)
    for node in fleet:
        node.slots = 500  # so that nothing but their death sends work elsewhere
    world = World(*fleet, cpu(), partitions=8)
    coming = arrivals(100)
    world.traffic(coming, 2.9)
    for node in fleet:
        node.reports = False
    down_s = 2.5 + NODE_TTL_S
    spilled = world.traffic(coming, 10.0)
    last_s = max(each.at_s for each in spilled if each.decision.pool == "gpu")
    assert down_s < last_s <= down_s + HEARD_WITHIN_S
    last = spilled[-1].decision
    assert (last.pool, last.reason) == ("cpu", Reason.OVERFLOW)
    for node in fleet:
        node.reports = True
        world.join(node)
    back_s = world.now_s
    world.run_to(back_s + HEARD_WITHIN_S)
    back = world.traffic(coming, back_s + 1.0)
    assert {each.decision.pool for each in back} == {"gpu"}


def test_a_node_that_joins_gets_work_as_soon_as_control_has_heard_it() -> None:
    fleet = gpus(2)
    world = World(fleet[0], cpu(), partitions=8)
    coming = arrivals(100)
    world.traffic(coming, 3.0)
    world.join(fleet[1])
    decided = world.traffic(coming, 4.0)
    first_s = min(each.at_s for each in decided if each.decision.node == "gpu-1")
    assert first_s <= 3.0 + HEARD_WITHIN_S + 0.1


def test_a_node_that_wakes_up_with_an_old_claim_gets_nothing() -> None:
    fleet = gpus(2)
    world = World(*fleet, cpu(), partitions=8)
    coming = arrivals(100)
    world.traffic(coming, 3.0)
    fleet[0].reports = False
    world.traffic(coming, 10.0)
    fleet[1].partitions, fleet[1].generation = tuple(range(8)), 2
    world.traffic(coming, 11.0)
    fleet[0].reports = True
    decided = world.traffic(coming, 14.0)
    assert "gpu-0" not in {each.decision.node for each in decided}
    assert world.outlook.view.pool("gpu").live["gpu-0"].partitions == ()


def test_routers_go_on_without_control_stale_then_blind_and_back() -> None:
    fleet = gpus(2)
    world = World(*fleet, cpu(), partitions=8)
    coming = arrivals(100)
    world.traffic(coming, 3.0)
    heard_s = world.now_s - (world.outlook.age_s(world.now_s) or 0.0)
    world.control = False
    decided = world.traffic(coming, heard_s + BLIND_AFTER_S + 5.0)
    began_s: dict[Mode, float] = {}
    for at_s, mode, decision in decided:
        began_s.setdefault(mode, at_s)
        assert decision.pool == "gpu"
        assert (decision.node is None) == (mode is Mode.BLIND)
    assert list(began_s) == [Mode.NORMAL, Mode.STALE, Mode.BLIND]
    assert 0 <= began_s[Mode.STALE] - heard_s - STALE_AFTER_S < 0.1
    assert 0 <= began_s[Mode.BLIND] - heard_s - BLIND_AFTER_S < 0.1
    world.take_over()
    world.run_to(world.now_s + REPORT_S + HEARD_WITHIN_S)
    assert world.outlook.mode(world.now_s) is Mode.NORMAL
    assert world.route().node is not None
