"""What one decision costs: decide, node choice and the view's update, as a router does them.

Every decision is timed by itself on a real `View`, the clock's own reading included. Per batch a
router also advances the view, and per snapshot it loads one: these are told apart.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.percentiles import p99
from schemas.control import ModelRecord, NodeState, PartitionState, PoolState, Snapshot
from schemas.features import Features
from schemas.headers import Exclusion
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS, GPU
from schemas.request import Priority
from schemas.value import replace
from streams.policy import DEFAULT_POLICY, View, policy

NODES_PER_POOL = 8
SLOTS = 8
PARTITIONS = (4, 32)
"""Of each pool: the embedded stack's and production's."""
BATCH = 50
BATCHES = 100
WARM_UP_BATCHES = 5
"""The first ones pay for cold caches, which a router that runs for days does not."""
NOW_MS = 1_700_000_000_000
LATENCY_MS = {"gpu": 50.0, "cpu": 800.0, "npu": 120.0}
AGE_MS = 50.0
"""Half the time between two snapshots under load."""
MODEL, SMALL_MODEL = "large", "small"


@dataclass(frozen=True)
class CaseCost:
    """Microseconds a decision, for one kind of request at one number of partitions."""

    name: str
    partitions: int
    median_us: float
    p99_us: float


@dataclass(frozen=True)
class DecideCost:
    """Microseconds over all decisions of all cases, and by case.

    Attributes:
        advance_us, load_us: median of one batch's, one snapshot's, at the most partitions.
    """

    pools: int
    nodes_per_pool: int
    decisions: int
    median_us: float
    p99_us: float
    advance_us: float
    load_us: float
    cases: tuple[CaseCost, ...]


def bench_decide(*, batches: int = BATCHES) -> DecideCost:
    """Return what decisions cost with 3 pools of 8 nodes; takes about a second."""
    cases = []
    decisions: list[float] = []
    advances: list[float] = []
    loads: list[float] = []
    for partitions in PARTITIONS:
        advances.clear()
        loads.clear()
        for name, (features, gpu_backlog) in _cases().items():
            snapshot = _snapshot(partitions, gpu_backlog)
            times = _decide_us(_view(partitions), snapshot, features, batches, advances, loads)
            cases.append(CaseCost(name, partitions, statistics.median(times), p99(times)))
            decisions += times
    return DecideCost(
        pools=len(DEFAULT_POOLS),
        nodes_per_pool=NODES_PER_POOL,
        decisions=len(decisions),
        median_us=statistics.median(decisions),
        p99_us=p99(decisions),
        advance_us=statistics.median(advances),
        load_us=statistics.median(loads),
        cases=tuple(cases),
    )


def _decide_us(
    view: View,
    snapshot: Snapshot,
    features: Features,
    batches: int,
    advances: list[float],
    loads: list[float],
) -> list[float]:
    """Return microseconds for each decision; append those of the batches' advances and loads."""
    decide = policy(DEFAULT_POLICY).decide

    def route() -> None:
        view.add(decide(features, view, NOW_MS))

    times = []
    gc.collect()
    gc.disable()  # what is collected is the caller's garbage, not a decision's
    try:
        for batch in range(-WARM_UP_BATCHES, batches):
            load_us = _timed_us(lambda: view.load(snapshot, {}))
            advance_us = _timed_us(lambda: view.advance(AGE_MS))
            batch_us = [_timed_us(route) for _ in range(BATCH)]
            if batch >= 0:
                loads.append(load_us)
                advances.append(advance_us)
                times += batch_us
    finally:
        gc.enable()
    return times


def _timed_us(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1e6


def _cases() -> Mapping[str, tuple[Features, int]]:
    """Return by name: a request, and how many records wait on each gpu partition."""
    plain = Features(MODEL, Priority.NORMAL, None, lora=False, gflops=None, expires_at_ms=2**50)
    backlog = 400
    return {
        "gpu is free": (plain, 0),
        "overflow": (plain, backlog),
        "overflow, objective no pool meets": (replace(plain, slo_ms=60.0), backlog),
        "realtime": (replace(plain, priority=Priority.REALTIME), backlog),
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
        requests_included=(),
        retry_included=(),
    )
