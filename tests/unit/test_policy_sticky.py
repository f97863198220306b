"""Rule 3: a bound conversation stays, unless waiting there costs more than rebuilding."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.headers import Exclusion
from schemas.outcomes import Mode, Reason
from schemas.service import ServiceTime, size_of
from tests.fleet import (
    EVERYWHERE,
    GPU,
    NOW_MS,
    NPU,
    REALTIME,
    decide,
    fleet,
    free,
    node,
    request,
)


def test_stays_though_another_node_is_idle() -> None:
    view = fleet(node("gpu-1", unfinished=8), *free("gpu-2"), bindings={"c": ("gpu", "gpu-1")})
    decision = decide(view, request(conversation="c"))
    assert (decision.node, decision.reason, decision.released) == ("gpu-1", Reason.STICKY, "")


def test_stays_in_a_pool_that_the_later_rules_would_not_choose() -> None:
    view = fleet(*EVERYWHERE, bindings={"c": ("cpu", "cpu-1")})
    assert decide(view, request(conversation="c")).node == "cpu-1"


def test_stays_as_long_as_the_wait_is_no_longer_than_wait_and_run_elsewhere() -> None:
    def after(unfinished: int) -> tuple[str | None, Reason]:
        view = fleet(
            node("gpu-1", unfinished=unfinished, slots=1),
            node("gpu-2", unfinished=1, slots=1),
            bindings={"c": ("gpu", "gpu-1")},
        )
        decision = decide(view, request(conversation="c"))
        assert bool(decision.released) == (decision.reason is not Reason.STICKY)
        return decision.node, decision.reason

    # gpu-2: 50 ms to wait, 50 ms to rebuild. gpu-1: 50 ms to wait for each record.
    assert after(2) == ("gpu-1", Reason.STICKY)
    assert after(3) == ("gpu-2", Reason.GPU_PREFERRED)


@pytest.mark.parametrize(
    ("gflops", "mean_ms", "slowness", "goes"),
    [
        (100.0, 600.0, 1.0, "npu-2"),
        (1_000.0, 600.0, 1.0, "npu-1"),
        (1_000.0, 400.0, 1.0, "npu-2"),  # longer than the mean run: pays that
        (100.0, 600.0, 8.0, "npu-1"),  # each run takes so many times as long there
        (None, 600.0, 1.0, "npu-1"),  # nobody knows: the mean run
    ],
)
def test_a_new_cache_costs_what_the_turn_itself_takes_the_mean_run_at_most(
    gflops: float | None, mean_ms: float, slowness: float, goes: str
) -> None:
    each_gflop = (
        ServiceTime(model="m", size=size_of(known), count=40, p50=1.0, p95=1.1)
        for known in (100.0, 1_000.0)
    )
    view = fleet(
        node("npu-1", unfinished=5, slots=4, latency_ms=1_000.0),  # 500 ms to wait
        node("npu-2", slots=4, latency_ms=mean_ms, slowness=slowness),
        service={NPU: tuple(each_gflop)},
        bindings={"c": ("npu", "npu-1")},
    )
    assert decide(view, request(conversation="c", gflops=gflops)).node == goes


def test_where_nothing_tells_what_the_turn_takes_a_quick_node_asks_the_mean_run_too() -> None:
    view = fleet(
        node("npu-1", unfinished=5, slots=4, latency_ms=1_000.0),  # 500 ms to wait
        node("npu-2", slots=4, latency_ms=600.0, slowness=0.5),
        bindings={"c": ("npu", "npu-1")},
    )
    assert decide(view, request(conversation="c", gflops=100.0)).node == "npu-1"


def test_stays_when_elsewhere_is_no_node() -> None:
    view = fleet(
        node("npu-1", unfinished=500),
        node("gpu-1", unfinished=()),
        bindings={"c": ("npu", "npu-1")},
    )
    assert decide(view, request(conversation="c")).node == "npu-1"


def test_leaves_for_a_node_of_its_own_compute_type_only() -> None:
    def after(unfinished: int, elsewhere: int = 0) -> tuple[str | None, Reason, str]:
        view = fleet(
            node("cpu-1", unfinished=unfinished, slots=1),
            node("cpu-2", unfinished=elsewhere, slots=1),
            *free("gpu-1", "npu-1"),
            bindings={"c": ("cpu", "cpu-1")},
        )
        decision = decide(view, request(conversation="c"))
        return decision.node, decision.reason, decision.released

    # 800 ms a run: cpu-2 is worth its new cache from two waiting records on; the gpu never is.
    assert after(1) == ("cpu-1", Reason.STICKY, "")
    assert after(2) == (
        "cpu-2",
        Reason.STICKY,
        "1600 ms to wait at cpu-1; at cpu-2 it is 0 ms, and 800 ms for a new cache",
    )
    assert after(500, 500) == ("cpu-1", Reason.STICKY, "")


def test_waits_at_the_only_node_of_its_compute_type() -> None:
    view = fleet(node("cpu-1", unfinished=500), *free("gpu-1"), bindings={"c": ("cpu", "cpu-1")})
    assert decide(view, request(conversation="c")).node == "cpu-1"


@pytest.mark.parametrize(
    ("nodes", "features", "because"),
    [
        ([node("cpu-1", live=False)], {}, ": cpu is down"),
        ([node("cpu-1", draining=True)], {}, ": cpu is down"),
        ([node("cpu-1", draining=True), node("cpu-2")], {}, ""),
        (
            [node("cpu-1", models=("other",))],
            {},
            ": cpu: no live node has model m",
        ),
        ([node("cpu-1")], {"excluded": (Exclusion("cpu-1", NOW_MS + 1),)}, ""),
        ([node("cpu-1")], {"pinned": (GPU,)}, ": cpu: the request is pinned to gpu"),
    ],
    ids=["dead", "draining", "draining beside another", "lacks the model", "refused", "pinned"],
)
def test_is_released_from_a_node_that_cannot_have_it(
    nodes: list[Any], features: dict[str, Any], because: str
) -> None:
    view = fleet(*nodes, *free("gpu-1"), bindings={"c": ("cpu", "cpu-1")})
    decision = decide(view, request(conversation="c", **features))
    assert decision.node == "gpu-1"
    assert decision.released == f"cpu-1 cannot take the request now{because}"


@pytest.mark.parametrize("urgent", [{"slo_ms": 49.0}, {"priority": REALTIME}], ids=str)
def test_an_urgent_turn_of_a_conversation_elsewhere_is_a_guest_on_the_gpu(
    urgent: dict[str, Any],
) -> None:
    view = fleet(*free("cpu-1", "gpu-1"), bindings={"c": ("cpu", "cpu-1")})
    decision = decide(view, request(conversation="c", **urgent))
    assert (decision.node, decision.express, decision.released) == ("gpu-1", True, "")
    assert decision.reason is not Reason.STICKY


def test_a_realtime_conversation_moves_to_several_gpus_when_one_is_too_slow() -> None:
    view = fleet(
        node("gpu-1", latency_ms=250.0), *free("gpu-tp-1"), bindings={"c": ("gpu", "gpu-1")}
    )
    decision = decide(view, request(conversation="c", priority=REALTIME))
    assert (decision.node, decision.released) == ("gpu-tp-1", "gpu-tp is demanded")


def test_blind_nobody_knows_whether_its_node_lives() -> None:
    view = fleet(*EVERYWHERE, bindings={"c": ("cpu", "cpu-1")}, mode=Mode.BLIND)
    decision = decide(view, request(conversation="c"))
    assert (decision.pool, decision.node, decision.released) == ("gpu", None, "")


def test_a_realtime_conversation_stays_on_its_gpu() -> None:
    view = fleet(*free("gpu-1", "gpu-2"), bindings={"c": ("gpu", "gpu-2"), "d": ("gpu", "gpu-1")})
    for conversation, name in (("c", "gpu-2"), ("d", "gpu-1")):
        decision = decide(view, request(conversation=conversation, priority=REALTIME))
        assert (decision.node, decision.reason) == (name, Reason.STICKY)


def test_is_released_from_a_paused_pool() -> None:
    view = fleet(*free("cpu-1", "gpu-1"), paused=("cpu",), bindings={"c": ("cpu", "cpu-1")})
    assert decide(view, request(conversation="c")).pool == "gpu"


def test_without_a_binding_nothing_is_released() -> None:
    assert decide(fleet(*EVERYWHERE), request(conversation="c")).released == ""
