"""Whether what a file says of models can be right, for these pools: a line for each fault.

Pure. Whether a pool could run a model is asked of rule 2 itself, blind, since no node is known
here; what only looks wrong to a person is asked beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.control import ModelRecord
from schemas.features import Features
from schemas.pools import ComputeType, Pool
from schemas.request import Priority
from streams.policy import DEFAULT_POLICY, View, policy

PARAMETERS_MIN = 10_000
"""No model worth a queue has fewer weights: 13 is meant as 13 billion, and would count as small."""
QUANTIZED = ("int4", "int8")
"""Weights that run only where a kernel for them is, so that somebody has to say where."""


def faults_of(model: ModelRecord, pools: tuple[Pool, ...]) -> list[str]:
    """Return what is wrong with a model; nothing if it can be registered."""
    here = {pool.compute_type for pool in pools}
    found = [
        *_of_size(model),
        *_of_pins(model, here),
        *_of_precision(model, here),
        *_of_operators(model, here),
        *_of_tokenizer(model),
    ]
    return [f"model {model.name}: {fault}" for fault in found or _of_routing(model, pools)]


def _of_size(model: ModelRecord) -> Iterator[str]:
    if model.parameters is not None and model.parameters < PARAMETERS_MIN:
        yield (
            f"parameters: {model.parameters} weights would make it a small model; write them out, "
            "as 13_000_000_000"
        )


def _of_pins(model: ModelRecord, here: set[ComputeType]) -> Iterator[str]:
    if model.pinned is None:
        return
    if not model.pinned:
        yield "pinned: to nothing, so it runs nowhere; leave it out to pin it to nothing"
    for pin in dict.fromkeys(model.pinned):
        if pin not in here:
            yield f"pinned: no pool has the compute type {pin.value}"


def _of_precision(model: ModelRecord, here: set[ComputeType]) -> Iterator[str]:
    if model.precision in QUANTIZED and not any(
        model.precision in (support.precisions or ())
        for kind, support in model.types.items()
        if kind in here
    ):
        yield (
            f"precision: {model.precision} is listed by no compute type of the pools; say where it "
            f'runs, as types.gpu.precisions = ["{model.precision}"]'
        )


def _of_operators(model: ModelRecord, here: set[ComputeType]) -> Iterator[str]:
    validated = {
        operator
        for kind, support in model.types.items()
        if kind in here
        for operator in support.operators or ()
    }
    for operator in dict.fromkeys(model.operators):
        if operator not in validated:
            yield (
                f"operators: {operator} is validated on no compute type of the pools; say where it "
                f'runs, as types.gpu.operators = ["{operator}"]'
            )


def _of_tokenizer(model: ModelRecord) -> Iterator[str]:
    for kind, support in model.types.items():
        if support.tokenizer_digest is not None and model.tokenizer_digest is None:
            yield (
                f"types.{kind.value}.tokenizer_digest: it is compared with the model's own "
                "tokenizer_digest, which is missing"
            )


def _of_routing(model: ModelRecord, pools: tuple[Pool, ...]) -> Iterator[str]:
    """Yield why no pool may run it, or why a type that it is pinned to may not."""
    excluded = _excluded(model, pools)
    if len(excluded) == len(pools):
        told = "; ".join(f"{pool}: {why}" for pool, why in excluded.items())
        yield f"no pool may run it: {told}"
        return
    for pool in pools:
        if model.pinned and pool.compute_type in model.pinned and pool.name in excluded:
            yield f"pinned: to {pool.compute_type.value}, but {excluded[pool.name]}"


def _excluded(model: ModelRecord, pools: tuple[Pool, ...]) -> dict[str, str]:
    """Return the pools that rule 2 excludes for a plain request, whatever nodes there are."""
    view = View(pools, "models", {pool.name: 1 for pool in pools})
    view.load_models({model.name: model})
    features = Features(
        model=model.name,
        priority=Priority.NORMAL,
        slo_ms=None,
        lora=False,
        gflops=None,
        expires_at_ms=1,
    )
    return dict(policy(DEFAULT_POLICY).decide(features, view, 0).excluded)
