"""Node choice: the least expected wait; inside the node the least loaded partition."""

from __future__ import annotations

from schemas.headers import Exclusion
from schemas.outcomes import Mode
from tests.fleet import (
    NOW_MS,
    REALTIME,
    decide,
    fleet,
    free,
    node,
    request,
)


def test_least_expected_wait_wins() -> None:
    view = fleet(
        node("gpu-1", unfinished=10, slots=2, latency_ms=10),  # 45 ms
        node("gpu-2", unfinished=3, slots=1, latency_ms=10),  # 30 ms: winner
        node("gpu-3", unfinished=2, slots=2, latency_ms=100),  # 50 ms
    )
    assert decide(view, request()).node == "gpu-2"


def test_of_equal_waits_the_least_loaded_wins() -> None:
    view = fleet(node("gpu-1", unfinished=3), node("gpu-2", unfinished=2))
    assert decide(view, request()).node == "gpu-2"


def test_busy_counts_where_it_is_more_than_what_is_counted() -> None:
    view = fleet(node("gpu-1", unfinished=1, busy=5), node("gpu-2", unfinished=2))
    assert decide(view, request()).node == "gpu-2"


def test_routers_break_ties_differently_and_each_always_the_same_way() -> None:
    def chosen(router: str) -> str | None:
        return decide(fleet(*free("gpu-1", "gpu-2", "gpu-3"), router=router), request()).node

    routers = [f"router-{number}" for number in range(30)]
    assert {chosen(router) for router in routers} == {"gpu-1", "gpu-2", "gpu-3"}
    assert [chosen(router) for router in routers] == [chosen(router) for router in routers]


def test_inside_the_node_the_least_loaded_partition_wins() -> None:
    assert decide(fleet(node("gpu-1", unfinished=(3, 1, 2))), request()).partition == 1


def test_a_blocked_partition_gets_nothing() -> None:
    view = fleet(node("gpu-1", blocked=True), node("gpu-2", unfinished=17))
    assert decide(view, request()).node == "gpu-2"


def test_a_node_that_refused_gets_nothing() -> None:
    view = fleet(*free("gpu-1"), node("gpu-2", unfinished=9))
    assert decide(view, request(excluded=(Exclusion("gpu-1", NOW_MS + 1),))).node == "gpu-2"


def test_a_node_without_slots_comes_last() -> None:
    view = fleet(node("gpu-1", slots=0), node("gpu-2", unfinished=17))
    assert decide(view, request()).node == "gpu-2"
    assert decide(fleet(node("gpu-1", slots=0)), request()).node == "gpu-1"


def test_without_a_live_owner_the_key_chooses_the_partition() -> None:
    view = fleet(node("gpu-1", unfinished=(0, 0, 0), live=False))
    placed = [decide(view, request(slo_ms=9.0, key_hash=key)) for key in range(6)]
    assert [decision.partition for decision in placed] == [0, 1, 2, 0, 1, 2]
    assert {decision.node for decision in placed} == {None}


def test_blind_the_key_chooses_the_partition() -> None:
    view = fleet(node("gpu-1", unfinished=(0, 9)), mode=Mode.BLIND)
    placed = [decide(view, request(key_hash=key)) for key in range(2)]
    assert [(decision.node, decision.partition) for decision in placed] == [
        (None, 0),
        (None, 1),
    ]


def test_a_paused_pool_is_waited_for_at_its_best_node() -> None:
    view = fleet(node("gpu-1", unfinished=9), *free("gpu-2"), paused=("gpu",))
    assert decide(view, request(slo_ms=9.0)).node == "gpu-2"


def test_while_all_refuse_it_waits_at_the_node_that_will_take_it_first() -> None:
    view = fleet(*free("gpu-1", "gpu-2"))
    refusals = (Exclusion("gpu-1", NOW_MS + 9), Exclusion("gpu-2", NOW_MS + 8))
    assert decide(view, request(excluded=refusals)).node == "gpu-2"
    assert decide(view, request(excluded=refusals, priority=REALTIME)).node == "gpu-2"
