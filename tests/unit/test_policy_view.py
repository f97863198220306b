"""What a router believes between two snapshots."""

from __future__ import annotations

import subprocess
import sys

import pytest

from schemas.control import ModelRecord
from schemas.errors import UsageError
from schemas.outcomes import Mode, Reason
from schemas.pools import DEFAULT_POOLS
from streams.policy import POLICIES, Decision, View, policy
from streams.policy.compatibility import OFFERS_KEPT_MAX
from tests.fleet import decide, fleet, node, request, snapshot

ONE_EACH = dict.fromkeys(("gpu", "cpu", "npu"), 1)


def to(pool: str, partition: int) -> Decision:
    return Decision(Reason.GPU_PREFERRED, 10, pool, None, partition)


def test_a_new_view_is_blind_and_routes_by_key() -> None:
    view = View(DEFAULT_POOLS, "router-1", dict.fromkeys(ONE_EACH, 4))
    assert view.mode is Mode.BLIND
    decision = decide(view, request(key_hash=7))
    assert (decision.pool, decision.partition, decision.threshold) == ("gpu", 3, 10)


def test_the_estimate_is_count_less_what_finished_meanwhile() -> None:
    view = fleet(node("gpu-1", unfinished=(20, 3), finish_rate=100.0))
    assert view.pool("gpu").unfinished == [20.0, 3.0]
    view.advance(50)
    assert view.pool("gpu").unfinished == [15.0, 0.0]  # 5 finished; never below 0
    assert view.pool("gpu").queue_depth == 7.0
    view.advance(0)
    assert view.pool("gpu").unfinished == [20.0, 3.0]  # from the counts, not from the last estimate


def test_what_was_routed_since_finishes_too() -> None:
    read = snapshot([node("gpu-1", unfinished=2, finish_rate=100.0)])
    view = View(DEFAULT_POOLS, "router-1", ONE_EACH)
    view.load(read, {("gpu", 0): 6, ("cpu", 0): 1})
    assert view.pool("gpu").unfinished == [8.0]
    assert view.pool("cpu").unfinished == [1.0]
    view.advance(50)
    assert view.pool("gpu").unfinished == [3.0]
    view.add(to("gpu", 0))
    assert view.pool("gpu").unfinished == [4.0]
    view.advance(50)
    assert view.pool("gpu").unfinished == [4.0]
    view.advance(80)
    assert view.pool("gpu").unfinished == [1.0]


def test_queue_depth_is_what_has_no_slot() -> None:
    view = fleet(
        node("gpu-1", unfinished=(6, 4)),  # 2 wait
        node("gpu-2", unfinished=3),  # none: free slots here do not help there
        node("gpu-3", unfinished=5, live=False),  # all 5 wait: nobody owns them
        node("gpu-4", unfinished=9, draining=True),  # 1 waits
        node("gpu-5", busy=8, unfinished=1),  # busy takes slots, it is no queue
        orphaned={"gpu": 7},
    )
    assert view.pool("gpu").queue_depth == 2 + 5 + 1 + 7
    assert view.pool("cpu").queue_depth == 0
    for partition, deeper in ((0, 1), (2, 0), (3, 1), (4, 1), (5, 0), (6, 1)):
        before = view.pool("gpu").queue_depth
        view.add(to("gpu", partition))
        assert view.pool("gpu").queue_depth == before + deeper


def test_what_waits_is_judged_by_what_busy_slots_finish() -> None:
    # 8 slots of 50 ms finish 16 in 100 ms; at 12 in the last ones they were not all busy.
    view = fleet(node("gpu-1", unfinished=30, finish_rate=120.0, latency_ms=50.0))
    view.advance(100)
    assert view.pool("gpu").unfinished == [18.0]
    assert view.pool("gpu").queue_depth == 30 - 16 - 8
    view.add(to("gpu", 0))
    assert view.pool("gpu").queue_depth == 31 - 16 - 8


def test_busy_slots_are_taken_to_finish_at_most_twice_what_they_did() -> None:
    view = fleet(node("gpu-1", unfinished=30, finish_rate=40.0, latency_ms=50.0))
    view.advance(100)
    assert view.pool("gpu").queue_depth == 30 - 8 - 8


def test_a_burst_on_an_idle_node_counts_in_full() -> None:
    view = fleet(node("gpu-1"))
    view.advance(500)
    for _ in range(20):
        view.add(to("gpu", 0))
    view.advance(500)
    assert view.pool("gpu").queue_depth == 20 - 8


def test_free_slots_and_latency_are_those_of_nodes_that_take_work() -> None:
    view = fleet(
        node("gpu-1", unfinished=3, latency_ms=40),  # 5
        node("gpu-2", unfinished=9, latency_ms=60),  # 0
        node("gpu-3", busy=6, latency_ms=80),  # 2
        node("gpu-4", draining=True, latency_ms=999),
        node("gpu-5", live=False, latency_ms=999),
        node("gpu-6", unfinished=(), latency_ms=999),
        node("gpu-7", blocked=True, latency_ms=999),
    )
    assert view.pool("gpu").free_slots == 7
    assert view.pool("gpu").latency_ms == 60
    assert view.pool("npu").latency_ms == 0


def test_a_pool_is_down_without_nodes_or_with_draining_ones_or_while_paused() -> None:
    view = fleet(
        node("gpu-1", draining=True),
        node("gpu-2", live=False),
        node("cpu-1"),
        node("gpu-tp-1"),
        paused=("cpu",),
    )
    assert {name: pool.down for name, pool in view.pools.items()} == {
        "gpu": True,
        "cpu": True,
        "npu": True,
        "gpu-tp": False,
    }


def test_a_decision_that_routes_nothing_adds_nothing() -> None:
    view = fleet(node("gpu-1"))
    view.add(Decision(Reason.EXPIRED, 10))
    assert view.pool("gpu").unfinished == [0.0]


def test_loading_again_rolls_back_what_was_added() -> None:
    read = snapshot([node("gpu-1")])
    view = View(DEFAULT_POOLS, "router-1", ONE_EACH)
    view.load(read, {})
    view.add(to("gpu", 0))
    view.load(read, {})
    assert view.pool("gpu").unfinished == [0.0]


def test_partitions_and_pools_that_the_router_does_not_know_yet_are_left_out() -> None:
    view = View(DEFAULT_POOLS, "router-1", ONE_EACH)
    view.load(snapshot([node("gpu-1", unfinished=(4, 5, 6)), node("gpu-tp-1")]), {})
    assert view.pool("gpu").unfinished == [4.0]
    assert decide(view, request(slo_ms=9.0)).partition == 0


def test_a_new_registry_counts_at_once() -> None:
    view = fleet(node("gpu-1"), node("npu-1"))
    view.mode = Mode.NORMAL
    assert decide(view, request()).pool == "gpu"
    view.load_models({"m": ModelRecord(name="m", parameters=1000)})
    assert decide(view, request()).pool == "npu"


def test_a_latency_that_is_reported_anew_counts_at_once() -> None:
    view = fleet(node("gpu-1", unfinished=99), node("cpu-1", latency_ms=50))
    assert decide(view, request(slo_ms=100.0)).reason is Reason.OVERFLOW
    view.load(snapshot([node("gpu-1", unfinished=99), node("cpu-1", latency_ms=500)]), {})
    assert decide(view, request(slo_ms=100.0)).reason is Reason.FALLBACK


def test_a_mode_counts_at_once() -> None:
    view = fleet(node("gpu-1", unfinished=99), node("cpu-1"))
    assert decide(view, request()).reason is Reason.OVERFLOW
    view.mode = Mode.BLIND
    assert decide(view, request()).reason is Reason.BLIND


def test_invented_model_names_take_bounded_memory() -> None:
    view = fleet(node("gpu-1"))
    for number in range(OFFERS_KEPT_MAX + 5):
        assert decide(view, request(model=f"m-{number}")).pool == "gpu"
        assert len(view.offers_by_model) <= OFFERS_KEPT_MAX
    decide(view, request(model="m"))
    assert "m" in view.offers_by_model  # what is real is kept again


def test_a_fleet_without_a_gpu_pool_is_refused() -> None:
    with pytest.raises(UsageError, match="no pool named 'gpu'"):
        View(DEFAULT_POOLS[1:], "router-1", ONE_EACH)


def test_policies_are_known_by_name() -> None:
    assert list(POLICIES) == [
        "overflow",
        "gpu-only",
        "round-robin",
        "static-threshold",
        "predictive",
    ]
    assert all(policy(name).name == name for name in POLICIES)
    with pytest.raises(UsageError, match="no policy is named 'fastest'; choose one of overflow, "):
        policy("fastest")


def test_the_policy_is_pure() -> None:
    # In a process of its own, since this one has imported everything.
    script = (
        "import sys; import streams.policy; "
        "print(sorted({'aiokafka', 'faust', 'aiohttp', 'prometheus_client', 'runtime'} "
        "& sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
