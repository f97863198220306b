"""Rules 1, 2, 4 and 5 of docs/policy.md, as sentences; the first one that applies wins.

Rule 3 is in test_policy_sticky.
"""

from __future__ import annotations

import pytest

from schemas.control import ModelRecord, TypeSupport
from schemas.headers import FOR_GOOD, Exclusion
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS
from schemas.request import Priority
from streams.policy import POLICIES
from tests.fleet import (
    CPU,
    EVERYWHERE,
    GPU,
    NOW_MS,
    NPU,
    OVERLOADED,
    REALTIME,
    Case,
    FleetNode,
    decide,
    fleet,
    free,
    full,
    node,
    request,
)

RULES = [
    Case(
        "1: a request that expires now has expired",
        fleet(*EVERYWHERE),
        request(expires_at_ms=NOW_MS),
        "expired",
    ),
    Case(
        "1: one that expires in a millisecond has not",
        fleet(*EVERYWHERE),
        request(expires_at_ms=NOW_MS + 1),
        "gpu gpu-preferred",
    ),
    Case(
        "1 before 2: an expired request is not unroutable",
        fleet(*EVERYWHERE),
        request(expires_at_ms=0, pinned=(NPU,), excluded=(Exclusion("npu-1", FOR_GOOD),)),
        "expired",
    ),
    Case(
        "2: pinned to cpu by the request",
        fleet(*EVERYWHERE),
        request(pinned=(CPU,)),
        "cpu overflow",
    ),
    Case(
        "2: pinned to npu by its model",
        fleet(*EVERYWHERE, models=[ModelRecord(name="m", pinned=(NPU,))]),
        request(),
        "npu overflow",
    ),
    Case(
        "2: pins that share no type leave none",
        fleet(*EVERYWHERE, models=[ModelRecord(name="m", pinned=(NPU,))]),
        request(pinned=(CPU,)),
        "unroutable",
    ),
    Case(
        "2: another model's pin is not this one's",
        fleet(*EVERYWHERE, models=[ModelRecord(name="other", pinned=(NPU,))]),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "2: self-written operators run only where they are validated",
        fleet(
            *EVERYWHERE,
            models=[
                ModelRecord(
                    name="m", operators=("warp",), types={CPU: TypeSupport(operators=("warp",))}
                )
            ],
        ),
        request(),
        "cpu overflow",
    ),
    Case(
        "2: operators validated nowhere leave none",
        fleet(*EVERYWHERE, models=[ModelRecord(name="m", operators=("warp",))]),
        request(),
        "unroutable",
    ),
    Case(
        "2: weights in a precision that a type does not run",
        fleet(
            *OVERLOADED[:1],
            *free("cpu-1", "npu-1"),
            models=[
                ModelRecord(
                    name="m", precision="int4", types={CPU: TypeSupport(precisions=("int8",))}
                )
            ],
        ),
        request(),
        "npu overflow",
    ),
    Case(
        "2: a tokenizer that differs",
        fleet(
            full("gpu-1"),
            *free("cpu-1", "npu-1"),
            models=[
                ModelRecord(
                    name="m",
                    tokenizer_digest="a",
                    types={
                        CPU: TypeSupport(tokenizer_digest="b"),
                        NPU: TypeSupport(tokenizer_digest="a"),
                    },
                )
            ],
        ),
        request(),
        "npu overflow",
    ),
    Case(
        "2: a feature that the request requires",
        fleet(
            *EVERYWHERE,
            models=[ModelRecord(name="m", types={GPU: TypeSupport(features=("chat",))})],
        ),
        request(capabilities=("vision",)),
        "cpu overflow",
    ),
    Case(
        "2: a precision that the request requires",
        fleet(
            *EVERYWHERE,
            models=[ModelRecord(name="m", types={GPU: TypeSupport(precisions=("fp16",))})],
        ),
        request(precision="int8"),
        "cpu overflow",
    ),
    Case(
        "2: a model that the registry does not know may run anywhere",
        fleet(*EVERYWHERE),
        request(operators=("warp",)),
        "gpu gpu-preferred",
    ),
    Case(
        "2: no live gpu node lists the model",
        fleet(node("gpu-1", models=("a", "b")), *free("cpu-1")),
        request(),
        "cpu overflow",
    ),
    Case(
        "2: one of two gpu nodes lists the model",
        fleet(node("gpu-1", models=("a",)), node("gpu-2", models=("m",)), *free("cpu-1")),
        request(),
        "gpu gpu-preferred",
    ),
    Case(
        "2: every gpu node refused for good",
        fleet(*free("gpu-1", "gpu-2", "cpu-1")),
        request(excluded=(Exclusion("gpu-1", FOR_GOOD), Exclusion("gpu-2", FOR_GOOD))),
        "cpu overflow",
    ),
    Case(
        "2: every node refused for good",
        fleet(*free("gpu-1", "cpu-1"), pools=DEFAULT_POOLS[:2]),
        request(excluded=(Exclusion("gpu-1", FOR_GOOD), Exclusion("cpu-1", FOR_GOOD))),
        "unroutable",
    ),
    Case(
        "2: the refusal of a node that has gone excludes nothing: the pool is down",
        fleet(node("gpu-1", live=False), *free("cpu-1")),
        request(excluded=(Exclusion("gpu-1", FOR_GOOD),)),
        "cpu overflow",
    ),
    Case(
        "2: a transient refusal sends it elsewhere",
        fleet(*free("gpu-1", "cpu-1")),
        request(excluded=(Exclusion("gpu-1", NOW_MS + 1),)),
        "cpu overflow",
    ),
    Case(
        "2: a transient refusal lapses",
        fleet(*free("gpu-1", "cpu-1")),
        request(excluded=(Exclusion("gpu-1", NOW_MS),)),
        "gpu gpu-preferred",
    ),
    Case(
        "2: while all refuse it waits where the refusal lapses first",
        fleet(*free("gpu-1", "cpu-1", "npu-1")),
        request(
            excluded=(
                Exclusion("gpu-1", NOW_MS + 9),
                Exclusion("cpu-1", NOW_MS + 8),
                Exclusion("npu-1", NOW_MS + 7),
            )
        ),
        "npu waiting",
    ),
    Case(
        "2: a pool that refuses for a while is nearer than one that is down",
        fleet(*free("gpu-1")),
        request(excluded=(Exclusion("gpu-1", NOW_MS + 5000),)),
        "gpu waiting",
    ),
    Case("2: with all pools down it waits on the cheapest", fleet(), request(), "cpu waiting"),
    Case(
        "2: with all pools paused it waits on the cheapest",
        fleet(*EVERYWHERE, paused=("gpu", "cpu", "npu")),
        request(),
        "cpu waiting",
    ),
    Case(
        "2: with all pools draining it waits on the cheapest it may use",
        fleet(*(node(name, draining=True) for name in ("gpu-1", "cpu-1", "npu-1"))),
        request(pinned=(GPU, NPU)),
        "npu waiting",
    ),
    Case(
        "2: the pool whose only able node drains is as good as down",
        fleet(node("gpu-1", draining=True), node("gpu-2", models=("other",)), *free("cpu-1")),
        request(),
        "cpu overflow",
    ),
    Case(
        "2: gpu-tp alone is no place to overflow to",
        fleet(
            *free("gpu-tp-1"),
            node("gpu-1", models=("a",)),
            node("cpu-1", models=("a",)),
            node("npu-1", models=("a",)),
        ),
        request(),
        "unroutable",
    ),
    Case(
        "4: an objective under 50 ms needs the gpu, however long its queue",
        fleet(full("gpu-1"), *free("cpu-1", "npu-1")),
        request(slo_ms=49.9),
        "gpu strict-slo",
    ),
    Case(
        "4: an objective of 50 ms is not strict",
        fleet(*EVERYWHERE),
        request(slo_ms=50.0),
        "gpu gpu-preferred",
    ),
    Case(
        "4 before 5: realtime with a strict objective",
        fleet(*EVERYWHERE),
        request(slo_ms=10.0, priority=REALTIME),
        "gpu strict-slo",
    ),
    Case(
        "4: waits on a gpu pool that is down",
        fleet(*free("cpu-1", "npu-1")),
        request(slo_ms=10.0),
        "gpu strict-slo",
    ),
    Case(
        "4: waits on the gpu when all pools are down", fleet(), request(slo_ms=10.0), "gpu waiting"
    ),
    Case(
        "4: ends where the gpu is excluded",
        fleet(*EVERYWHERE),
        request(slo_ms=10.0, pinned=(CPU,)),
        "unroutable",
    ),
    Case(
        "4: a strict objective never takes gpu-tp",
        fleet(node("gpu-1", latency_ms=500), *free("gpu-tp-1")),
        request(slo_ms=10.0, priority=REALTIME),
        "gpu strict-slo",
    ),
    Case(
        "5: realtime goes to the gpu, however long its queue",
        fleet(full("gpu-1"), *free("cpu-1", "npu-1")),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "5: several gpus where one takes longer than 200 ms",
        fleet(node("gpu-1", latency_ms=201), *free("gpu-tp-1")),
        request(priority=REALTIME),
        "gpu-tp tensor-parallel",
    ),
    Case(
        "5: one gpu where it takes 200 ms",
        fleet(node("gpu-1", latency_ms=200), *free("gpu-tp-1")),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "5: the request's own objective counts before 200 ms",
        fleet(node("gpu-1", latency_ms=201), *free("gpu-tp-1")),
        request(priority=REALTIME, slo_ms=300.0),
        "gpu realtime",
    ),
    Case(
        "5: one gpu where gpu-tp is not live",
        fleet(node("gpu-1", latency_ms=900), node("gpu-tp-1", live=False)),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "5: one gpu where gpu-tp is not configured",
        fleet(node("gpu-1", latency_ms=900), pools=DEFAULT_POOLS),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "5: only gpus that can take the request count",
        fleet(
            node("gpu-1", latency_ms=900),
            node("gpu-2", latency_ms=100, models=("other",)),
            *free("gpu-tp-1"),
        ),
        request(priority=REALTIME),
        "gpu-tp tensor-parallel",
    ),
    Case(
        "5: waits on a gpu pool that is down",
        fleet(*free("cpu-1", "npu-1")),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "5: ends where the gpu is excluded",
        fleet(node("gpu-1", models=("a",)), *free("cpu-1")),
        request(priority=REALTIME),
        "unroutable",
    ),
    Case(
        "5: gpu-tp does not stand in for an excluded gpu",
        fleet(node("gpu-1", models=("a",)), *free("gpu-tp-1")),
        request(priority=REALTIME),
        "unroutable",
    ),
    Case(
        "5 before 6: realtime LoRA",
        fleet(*EVERYWHERE),
        request(priority=REALTIME, lora=True),
        "gpu realtime",
    ),
    Case("10: wait for the gpu", fleet(*OVERLOADED), request(), "gpu fallback"),
    Case(
        "10: with the gpu down, wait for the cheapest that is up",
        fleet(full("npu-1")),
        request(),
        "npu fallback",
    ),
    Case(
        "10: with the gpu excluded, wait for the cheapest of the others",
        fleet(*OVERLOADED),
        request(pinned=(CPU, NPU)),
        "cpu fallback",
    ),
    Case(
        "blind: the gpu, whatever was known of it",
        fleet(*OVERLOADED, mode=Mode.BLIND),
        request(),
        "gpu blind",
    ),
    Case(
        "blind: the cheapest that is not excluded",
        fleet(mode=Mode.BLIND),
        request(pinned=(CPU, NPU)),
        "cpu blind",
    ),
    Case(
        "blind: the registry still counts",
        fleet(mode=Mode.BLIND, models=[ModelRecord(name="m", pinned=(NPU,))]),
        request(),
        "npu blind",
    ),
    Case(
        "blind: expired is expired",
        fleet(mode=Mode.BLIND),
        request(expires_at_ms=NOW_MS),
        "expired",
    ),
    Case(
        "blind: strict objectives still need the gpu",
        fleet(mode=Mode.BLIND),
        request(slo_ms=49.0),
        "gpu strict-slo",
    ),
    Case(
        "blind: so does realtime, never gpu-tp, of which nothing is known",
        fleet(node("gpu-1", latency_ms=900), *free("gpu-tp-1"), mode=Mode.BLIND),
        request(priority=REALTIME),
        "gpu realtime",
    ),
    Case(
        "blind: nothing left is unroutable",
        fleet(mode=Mode.BLIND, models=[ModelRecord(name="m", pinned=())]),
        request(),
        "unroutable",
    ),
]


@pytest.mark.parametrize("case", RULES, ids=[case.sentence for case in RULES])
def test_rule(case: Case) -> None:
    assert case.decided() == case.answer


LATER_RULES = ("gpu-preferred", "overflow", "fallback")
DECIDED = [case for case in RULES if not case.answer.endswith(LATER_RULES)]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("case", DECIDED, ids=[case.sentence for case in DECIDED])
def test_what_these_rules_decide_they_decide_for_every_policy(case: Case, name: str) -> None:
    assert case.decided(name) == case.answer


@pytest.mark.parametrize("priority", Priority)
@pytest.mark.parametrize("slo_ms", [None, 49.0, 60.0])
@pytest.mark.parametrize("mode", Mode)
def test_express_follows_priority_and_objective(
    priority: Priority, slo_ms: float | None, mode: Mode
) -> None:
    view = fleet(*EVERYWHERE, mode=mode, bindings={"c": ("gpu", "gpu-1")})
    urgent = priority is REALTIME or slo_ms == 49.0
    for features in (
        request(priority=priority, slo_ms=slo_ms),
        request(priority=priority, slo_ms=slo_ms, conversation="c"),
    ):
        decision = decide(view, features)
        assert (decision.pool, decision.express) == ("gpu", urgent)


def test_a_pool_without_an_express_lane_has_no_express_work() -> None:
    no_lane = tuple(pool.model_copy(update={"express": False}) for pool in DEFAULT_POOLS)
    assert not decide(fleet(*EVERYWHERE, pools=no_lane), request(priority=REALTIME)).express


def test_the_decision_says_why_pools_are_excluded() -> None:
    view = fleet(node("gpu-1", models=("a",)), *free("cpu-1", "npu-1"), pools=DEFAULT_POOLS)
    decision = decide(view, request(pinned=(GPU, CPU)))
    assert decision.excluded == {
        "gpu": "no live node has model m",
        "npu": "the request is pinned to gpu, cpu",
    }
    assert decision.pool == "cpu"


@pytest.mark.parametrize(
    ("nodes", "refused", "words"),
    [
        ([node("gpu-1", models=("a",))], (), "no live node has model m"),
        (free("gpu-1", "gpu-2"), ("gpu-1", "gpu-2"), "every live node refused the request"),
        (
            [node("gpu-1", models=("a",)), node("gpu-2")],
            ("gpu-2",),
            "1 of 2 live nodes lack model m, the others refused it",
        ),
    ],
)
def test_nodes_exclude_a_pool_in_their_own_words(
    nodes: list[FleetNode], refused: tuple[str, ...], words: str
) -> None:
    for_good = tuple(Exclusion(name, FOR_GOOD) for name in refused)
    decision = decide(fleet(*nodes, *free("cpu-1")), request(excluded=for_good))
    assert decision.excluded == {"gpu": words}


def test_a_pool_that_is_down_is_not_excluded() -> None:
    assert decide(fleet(*free("cpu-1")), request()).excluded == {}
