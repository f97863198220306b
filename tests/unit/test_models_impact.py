"""The dry run of a registry change: what moves, what becomes unroutable, and in whose words."""

from __future__ import annotations

from typing import Any

from deploy.models.change import Change
from deploy.models.impact import Effect, Fleet, Piece, effects
from schemas.control import ModelRecord, TypeSupport
from schemas.pools import DEFAULT_POOLS, ComputeType
from schemas.request import Priority
from streams.policy import policy
from tests.fleet import NOW_MS, free, request, snapshot

GPU, CPU, NPU = ComputeType.GPU, ComputeType.CPU, ComputeType.NPU
FLEET = Fleet(
    DEFAULT_POOLS, {"gpu": 1, "cpu": 1, "npu": 1}, snapshot(free("gpu-1", "cpu-1", "npu-1"))
)


def model(**said: Any) -> ModelRecord:
    return ModelRecord(name="m", **said)


def piece(pool: str | None = None, **features: Any) -> Piece:
    return Piece("request", "requests-0@1", "r", request(**features), pool)


def effect_of(
    one: Piece, after: ModelRecord, before: ModelRecord | None = None, fleet: Fleet = FLEET
) -> Effect | None:
    was = {} if before is None else {"m": before}
    found = effects(
        [one],
        policy("overflow"),
        fleet.view(was),
        fleet.view(Change([after]).after(was)),
        NOW_MS,
    )
    assert len(found) <= 1
    return found[0] if found else None


def moved(effect: Effect | None) -> tuple[str, str | None, str]:
    assert effect is not None
    return effect.before, effect.after, effect.why


def test_a_change_that_does_not_touch_a_request_has_no_effect_on_it() -> None:
    assert effect_of(piece(), model(pinned=(GPU,))) is None
    assert effect_of(piece(model="other"), model(pinned=(CPU,))) is None
    assert effect_of(piece("cpu"), model(pinned=(CPU,))) is None


def test_an_undecided_request_moves_to_where_the_policy_would_send_it() -> None:
    assert moved(effect_of(piece(), model(pinned=(NPU,)))) == (
        "gpu",
        "npu",
        "model m is pinned to npu",
    )


def test_an_undecided_request_moves_by_a_rule_too() -> None:
    effect = effect_of(piece(), model(parameters=10**8))
    assert moved(effect) == ("gpu", "npu", "rule `small-model` sends it elsewhere")


def test_what_is_queued_is_touched_only_where_its_pool_is_excluded() -> None:
    assert effect_of(piece("gpu"), model(parameters=10**8)) is None
    unable = model(types={GPU: TypeSupport(precisions=())}, precision="int4")
    assert moved(effect_of(piece("gpu"), unable)) == (
        "gpu",
        "cpu",
        "precision int4 is not run on gpu",
    )


def test_a_request_that_no_pool_may_run_any_more_is_unroutable_in_the_words_of_each() -> None:
    effect = effect_of(piece("cpu", pinned=(CPU,)), model(pinned=(GPU,)))
    assert moved(effect) == ("cpu", None, "model m is pinned to gpu")
    assert effect is not None
    assert effect.excluded == {
        "cpu": "model m is pinned to gpu",
        "npu": "the request is pinned to cpu",
        "gpu": "the request is pinned to cpu",
    }


def test_realtime_work_is_unroutable_without_the_gpu() -> None:
    effect = effect_of(piece(priority=Priority.REALTIME), model(pinned=(CPU,)))
    assert moved(effect) == ("gpu", None, "model m is pinned to cpu")


def test_what_was_unroutable_or_misplaced_before_is_no_effect_of_the_change() -> None:
    assert effect_of(piece(pinned=(CPU,)), model(pinned=(NPU,)), model(pinned=(GPU,))) is None
    assert effect_of(piece("cpu"), model(pinned=(NPU,)), model(pinned=(GPU,))) is None


def test_what_has_expired_is_left_out() -> None:
    assert effect_of(piece(expires_at_ms=0), model(pinned=(CPU,))) is None
    assert effect_of(piece("gpu", expires_at_ms=0), model(pinned=(CPU,))) is None


def test_without_a_snapshot_the_registry_alone_is_compared() -> None:
    blind = Fleet(DEFAULT_POOLS, FLEET.partitions, None)
    assert moved(effect_of(piece(), model(pinned=(CPU,)), fleet=blind))[:2] == ("gpu", "cpu")
    assert blind.holds("gone")
    assert FLEET.holds("cpu-1")
    assert not FLEET.holds("gone")
