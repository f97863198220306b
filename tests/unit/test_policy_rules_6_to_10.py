"""Rules 6 to 10 of docs/policy.md, as sentences, and the baselines that replace them."""

from __future__ import annotations

import pytest

from schemas.control import ModelRecord
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS
from tests.fleet import (
    EVERYWHERE,
    NPU,
    OVERLOADED,
    SMALL,
    Case,
    decide,
    fleet,
    free,
    full,
    node,
    request,
)

RULES = [
    Case(
        "6: LoRA takes a free npu slot, whatever the objective",
        fleet(*free("gpu-1"), node("npu-1", latency_ms=5000)),
        request(lora=True, slo_ms=60.0),
        "npu lora",
    ),
    Case(
        "6: LoRA goes on to rule 8 when the npu is full",
        fleet(*free("gpu-1"), node("npu-1", unfinished=8)),
        request(lora=True),
        "gpu gpu-preferred",
    ),
    Case(
        "6: and from there to rule 9",
        fleet(full("gpu-1"), node("npu-1", unfinished=8), *free("cpu-1")),
        request(lora=True),
        "cpu overflow",
    ),
    Case(
        "6: only npu nodes that can take it count",
        fleet(*free("gpu-1"), node("npu-1", models=("a",)), node("npu-2", unfinished=8)),
        request(lora=True),
        "gpu gpu-preferred",
    ),
    Case(
        "6: a npu that is down has no free slot",
        fleet(*EVERYWHERE, paused=("npu",)),
        request(lora=True),
        "gpu gpu-preferred",
    ),
    Case(
        "6 before 7: small LoRA", fleet(*EVERYWHERE, models=[SMALL]), request(lora=True), "npu lora"
    ),
    Case(
        "7: a small model takes a free npu slot",
        fleet(*EVERYWHERE, models=[SMALL]),
        request(),
        "npu small-model",
    ),
    Case(
        "7: a model of a billion is not small",
        fleet(*EVERYWHERE, models=[ModelRecord(name="m", parameters=1_000_000_000)]),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "7: a model of unknown size is not small",
        fleet(*EVERYWHERE, models=[ModelRecord(name="m")]),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "7: with the npu full, the cpu, if it meets the objective exactly",
        fleet(*free("gpu-1", "cpu-1"), full("npu-1"), models=[SMALL]),
        request(slo_ms=800.0),
        "cpu small-model",
    ),
    Case(
        "7: the cpu may be full while its queue is short",
        fleet(*free("gpu-1"), node("cpu-1", unfinished=17), full("npu-1"), models=[SMALL]),
        request(),
        "cpu small-model",
    ),
    Case(
        "7: else rule 8, if the cpu is too slow",
        fleet(*free("gpu-1", "cpu-1"), full("npu-1"), models=[SMALL]),
        request(slo_ms=799.0),
        "gpu gpu-preferred",
    ),
    Case(
        "7: else rule 8, if the cpu's queue is as long as the threshold",
        fleet(*free("gpu-1"), full("cpu-1"), full("npu-1"), models=[SMALL]),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "8: the gpu, one below the threshold",
        fleet(node("gpu-1", unfinished=17), *free("cpu-1", "npu-1")),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "8: not at the threshold",
        fleet(full("gpu-1"), *free("cpu-1", "npu-1")),
        request(),
        "cpu overflow",
    ),
    Case(
        "8: free slots of one node do not shorten another one's queue",
        fleet(full("gpu-1"), *free("gpu-2", "cpu-1")),
        request(),
        "cpu overflow",
    ),
    Case(
        "8: records on partitions without a live owner wait, too",
        fleet(*free("gpu-1", "cpu-1"), orphaned={"gpu": 10}),
        request(),
        "cpu overflow",
    ),
    Case(
        "8: the records of a dead node's partitions wait, all of them",
        fleet(
            node("gpu-1", unfinished=5), node("gpu-2", unfinished=10, live=False), *free("cpu-1")
        ),
        request(),
        "cpu overflow",
    ),
    Case(
        "8: the queue of a draining node is a queue",
        fleet(*free("gpu-1", "cpu-1"), full("gpu-2", draining=True)),
        request(),
        "cpu overflow",
    ),
    Case(
        "9: the next cheapest if the cheapest has no free slot",
        fleet(full("gpu-1"), node("cpu-1", unfinished=8), *free("npu-1")),
        request(),
        "npu overflow",
    ),
    Case(
        "9: the next cheapest if the cheapest is too slow",
        fleet(full("gpu-1"), *free("cpu-1", "npu-1")),
        request(slo_ms=799.9),
        "npu overflow",
    ),
    Case(
        "9: latency equal to the objective meets it",
        fleet(full("gpu-1"), *free("cpu-1", "npu-1")),
        request(slo_ms=800.0),
        "cpu overflow",
    ),
    Case(
        "9: the mean of the live nodes counts",
        fleet(
            full("gpu-1"),
            node("cpu-1", latency_ms=100),
            node("cpu-2", latency_ms=300),
            node("cpu-3", latency_ms=9000, live=False),
            *free("npu-1"),
        ),
        request(slo_ms=200.0),
        "cpu overflow",
    ),
    Case(
        "9: the gpu itself, if one of its nodes has a free slot and the others are too slow",
        fleet(full("gpu-1"), *free("gpu-2", "cpu-1", "npu-1")),
        request(slo_ms=60.0),
        "gpu overflow",
    ),
    Case(
        "9: a node that is busier than counted has no free slot",
        fleet(full("gpu-1"), node("cpu-1", busy=8), *free("npu-1")),
        request(),
        "npu overflow",
    ),
    Case(
        "9: a node with a blocked partition has no free slot",
        fleet(full("gpu-1"), node("cpu-1", blocked=True), *free("npu-1")),
        request(),
        "npu overflow",
    ),
    Case(
        "9: a node without partitions has no free slot",
        fleet(full("gpu-1"), node("cpu-1", unfinished=()), *free("npu-1")),
        request(),
        "npu overflow",
    ),
    Case(
        "9: gpu-tp is not for overflow",
        fleet(*OVERLOADED, *free("gpu-tp-1")),
        request(),
        "gpu fallback",
    ),
    Case("gpu down: others take rule 9", fleet(*free("cpu-1", "npu-1")), request(), "cpu overflow"),
    Case(
        "stale: the rules go on with what was last known",
        fleet(full("gpu-1"), *free("cpu-1"), mode=Mode.STALE),
        request(),
        "cpu overflow",
    ),
]


@pytest.mark.parametrize("case", RULES, ids=[case.sentence for case in RULES])
def test_rule(case: Case) -> None:
    assert case.decided() == case.answer


def test_equal_prices_go_cpu_npu_gpu() -> None:
    alike = tuple(pool.model_copy(update={"cost_coefficient": 1.0}) for pool in DEFAULT_POOLS)
    slots_left = {"gpu-2": "gpu", "npu-1": "npu", "cpu-1": "cpu"}
    names: list[str] = []
    for name, expected in slots_left.items():
        names.append(name)
        assert decide(fleet(full("gpu-1"), *free(*names), pools=alike), request()).pool == expected


def test_the_threshold_of_static_threshold_stands_still() -> None:
    view = fleet(node("gpu-1", unfinished=40), *free("cpu-1"), threshold=1000)
    assert decide(view, request()).pool == "gpu"
    decision = decide(view, request(), "static-threshold")
    assert (decision.pool, decision.threshold) == ("cpu", 10)


def test_gpu_only_waits_for_a_gpu_that_is_down_and_uses_no_other_pool_unless_it_must() -> None:
    assert decide(fleet(*OVERLOADED[:1], *free("cpu-1")), request(), "gpu-only").pool == "gpu"
    assert decide(fleet(*free("cpu-1", "npu-1")), request(), "gpu-only").pool == "gpu"
    assert decide(fleet(*EVERYWHERE), request(pinned=(NPU,)), "gpu-only").pool == "npu"


def test_round_robin_uses_open_pools_about_equally_often() -> None:
    view = fleet(*EVERYWHERE)
    pools = [decide(view, request(key_hash=turn << 16), "round-robin").pool for turn in range(300)]
    assert {pool: pools.count(pool) for pool in pools} == {"cpu": 100, "npu": 100, "gpu": 100}
