"""What one decision costs: decide, node choice and the view's update, as a router does them.

Each policy is measured on the same requests and the same fleet. Every decision is timed by itself
on a real `View`, the clock's own reading included. Per batch a router also advances the view, and
per snapshot it loads one: these are told apart.
"""

from __future__ import annotations

import functools
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.instruments.percentiles import p99
from schemas.control import ModelRecord, NodeState, PartitionState, PoolState, Snapshot
from schemas.features import Features
from schemas.headers import Exclusion
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS, GPU, ComputeType
from schemas.request import Priority
from schemas.service import ServiceTime, size_of
from schemas.value import replace
from streams.policy import DEFAULT_POLICY, POLICIES, View, policy

NODES_PER_POOL = 8
SLOTS = 8
PARTITIONS = (4, 32)
"""Of each pool: the embedded stack's and production's."""
BATCH = 50
BATCHES = 40
WARM_UP_BATCHES = 5
"""The first ones pay for cold caches, which a router that runs for days does not."""
NOW_MS = 1_700_000_000_000
LATENCY_MS = {"gpu": 50.0, "cpu": 800.0, "npu": 120.0}
AGE_MS = 50.0
"""Half the time between two snapshots under load."""
MODEL, SMALL_MODEL = "large", "small"
GFLOPS = 1000.0
"""Estimated work of each request."""
KEYS = 64
"""Hashes that requests take in turn; as of all keys, one in 16 of them may explore."""
SIZES = 12
"""Of estimated work, steps of the root of 2, that have run: from 250 to 11,000 GFLOP."""


@dataclass(frozen=True)
class CaseCost:
    """Microseconds a decision, for one kind of request at one number of partitions."""

    name: str
    partitions: int
    median_us: float
    p99_us: float


@dataclass(frozen=True)
class PolicyCost:
    """Microseconds over all decisions of one policy, and by case."""

    policy: str
    median_us: float
    p99_us: float
    cases: tuple[CaseCost, ...]


@dataclass(frozen=True)
class DecideCost:
    """What decisions cost, by policy.

    Attributes:
        decisions: of each policy.
        advance_us, load_us: median of one batch's, one snapshot's, at the most partitions.
    """

    pools: int
    nodes_per_pool: int
    decisions: int
    advance_us: float
    load_us: float
    policies: tuple[PolicyCost, ...]


def bench_decide(*, batches: int = BATCHES) -> DecideCost:
    """Return what decisions cost with 3 pools of 8 nodes; takes some seconds."""
    gc.disable()  # what would be collected is the caller's garbage, not a decision's
    try:
        return _measured(batches)
    finally:
        gc.enable()


def _measured(batches: int) -> DecideCost:
    cases: dict[str, list[CaseCost]] = {name: [] for name in POLICIES}
    decisions: dict[str, list[float]] = {name: [] for name in POLICIES}
    advances: list[float] = []
    loads: list[float] = []
    for partitions in PARTITIONS:
        advances.clear()
        loads.clear()
        for name, (features, gpu_backlog) in _cases().items():
            # Two, as each one that a router reads is new to it: its estimates are made anew.
            snapshots = [_snapshot(partitions, gpu_backlog) for _ in range(2)]
            for chosen in POLICIES:
                us = _decide_us(chosen, partitions, snapshots, features, batches, advances, loads)
                cases[chosen].append(CaseCost(name, partitions, statistics.median(us), p99(us)))
                decisions[chosen] += us
    return DecideCost(
        pools=len(DEFAULT_POOLS),
        nodes_per_pool=NODES_PER_POOL,
        decisions=len(decisions[DEFAULT_POLICY]),
        advance_us=statistics.median(advances),
        load_us=statistics.median(loads),
        policies=tuple(
            PolicyCost(chosen, statistics.median(times), p99(times), tuple(cases[chosen]))
            for chosen, times in decisions.items()
        ),
    )


def _decide_us(
    name: str,
    partitions: int,
    snapshots: Sequence[Snapshot],
    features: Features,
    batches: int,
    advances: list[float],
    loads: list[float],
) -> list[float]:
    """Return microseconds for each decision; append those of the batches' advances and loads."""
    decide, view = policy(name).decide, _view(partitions)

    # As keys are: policies choose by their hashes whom to let explore, and where ties go.
    keyed = itertools.cycle([replace(features, key_hash=n << 20) for n in range(KEYS)])

    def route() -> None:
        view.add(decide(next(keyed), view, NOW_MS))

    times = []
    for batch, snapshot in zip(
        range(-WARM_UP_BATCHES, batches), itertools.cycle(snapshots), strict=False
    ):
        load_us = _timed_us(functools.partial(view.load, snapshot, {}))
        advance_us = _timed_us(functools.partial(view.advance, AGE_MS))
        batch_us = [_timed_us(route) for _ in range(BATCH)]
        if batch >= 0:
            loads.append(load_us)
            advances.append(advance_us)
            times += batch_us
    return times


def _timed_us(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e6


def _cases() -> Mapping[str, tuple[Features, int]]:
    """Return by name: a request, and how many records wait on each gpu partition."""
    plain = Features(MODEL, Priority.NORMAL, None, lora=False, gflops=GFLOPS, expires_at_ms=2**50)
    backlog = 400
    return {
        "gpu is free": (plain, 0),
        "overflow": (plain, backlog),
        "overflow, objective": (replace(plain, slo_ms=1_000.0), backlog),
        "overflow, objective no pool meets": (replace(plain, slo_ms=60.0), backlog),
        "realtime": (replace(plain, priority=Priority.REALTIME), backlog),
        "batch": (replace(plain, priority=Priority.BATCH), backlog),
        "lora": (replace(plain, lora=True), backlog),
        "small model": (replace(plain, model=SMALL_MODEL), backlog),
        "bound conversation": (replace(plain, conversation="bound"), backlog),
        "refused by a node": (replace(plain, excluded=(Exclusion("gpu-0", NOW_MS + 5000),)), 0),
    }


def _view(partitions: int) -> View:
    view = View(DEFAULT_POOLS, "bench", dict.fromkeys(LATENCY_MS, partitions))
    view.mode = Mode.NORMAL
    view.bindings = {"bound": (GPU, "gpu-0")}
    view.load_models(
        {
            MODEL: ModelRecord(name=MODEL, parameters=13_000_000_000),
            SMALL_MODEL: ModelRecord(name=SMALL_MODEL, parameters=100_000_000),
        }
    )
    return view


def _snapshot(partitions: int, gpu_backlog: int) -> Snapshot:
    backlog = {GPU: gpu_backlog}
    nodes = [
        NodeState(
            id=f"{pool}-{number}",
            pool=pool,
            live=True,
            slots=SLOTS,
            # With fewer partitions than nodes some own none, as in a real group.
            partitions=tuple(range(number, partitions, NODES_PER_POOL)),
            models=(MODEL, SMALL_MODEL),
            latency_ms=latency_ms,
        )
        for (pool, latency_ms), number in itertools.product(
            LATENCY_MS.items(), range(NODES_PER_POOL)
        )
    ]
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=NOW_MS,
        published_at_ms=NOW_MS,
        threshold=10,
        pools={
            pool: PoolState(
                routed_total=0,
                finished_total=0,
                partitions=(PartitionState(unfinished=1 + backlog.get(pool, 0), finish_rate=20.0),)
                * partitions,
            )
            for pool in LATENCY_MS
        },
        nodes=tuple(nodes),
        service={
            ComputeType(pool): tuple(
                ServiceTime(
                    model=model,
                    size=size_of(GFLOPS) - 4 + step,
                    count=40,
                    p50=latency_ms / GFLOPS,
                    p95=1.1 * latency_ms / GFLOPS,
                )
                for model in (MODEL, SMALL_MODEL)
                for step in range(SIZES)
            )
            for pool, latency_ms in LATENCY_MS.items()
        },
        requests_included=(),
        retry_included=(),
    )
