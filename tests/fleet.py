"""Fleets and requests for policy tests, in one line each: `fleet(node("gpu-1", unfinished=20))`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.control import ModelRecord, NodeState, PartitionState, PoolState, Snapshot
from schemas.features import Features
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS, GPU_TP, ComputeType, Pool
from schemas.request import Priority
from schemas.service import ServiceTime
from streams.policy import Decision, View, policy

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 60_000
POOLS_WITH_TP = (
    *DEFAULT_POOLS,
    Pool(name=GPU_TP, compute_type=ComputeType.GPU, cost_coefficient=4.0, express=True),
)
REALTIME = Priority.REALTIME
CPU, GPU, NPU = ComputeType.CPU, ComputeType.GPU, ComputeType.NPU
SMALL = ModelRecord(name="m", parameters=999_999_999)
"""A model of just under the billion parameters from which on none is small."""
LATENCY_MS = {"gpu": 50.0, "cpu": 800.0, "npu": 120.0, "gpu-tp": 30.0}


@dataclass(frozen=True)
class FleetNode:
    """A node and what is unfinished on each of its partitions."""

    state: NodeState
    unfinished: tuple[int, ...]
    finish_rate: float


def node(
    name: str,
    *,
    unfinished: int | tuple[int, ...] = 0,
    slots: int = 8,
    latency_ms: float | None = None,
    finish_rate: float = 0.0,
    blocked: bool = False,
    **state: Any,
) -> FleetNode:
    """Return a live node; its pool is its name up to the last dash."""
    pool = name.rpartition("-")[0]
    loads = (unfinished,) if isinstance(unfinished, int) else unfinished
    return FleetNode(
        NodeState(
            id=name,
            pool=pool,
            slots=slots,
            latency_ms=LATENCY_MS[pool] if latency_ms is None else latency_ms,
            blocked=(-1,) if blocked else (),
            **{"live": True, **state},
        ),
        loads,
        finish_rate,
    )


def snapshot(
    nodes: Iterable[FleetNode],
    *,
    threshold: int = 10,
    paused: Iterable[str] = (),
    orphaned: Mapping[str, int] | None = None,
    service: Mapping[ComputeType, tuple[ServiceTime, ...]] | None = None,
) -> Snapshot:
    """Return a snapshot in which each node owns partitions of its own, in order.

    `orphaned` adds to a pool a partition that no live node owns, with so many records.
    """
    partitions: dict[str, list[PartitionState]] = {pool.name: [] for pool in POOLS_WITH_TP}
    states = []
    for member in nodes:
        known = partitions[member.state.pool]
        owned = tuple(range(len(known), len(known) + len(member.unfinished)))
        known += [
            PartitionState(unfinished=count, finish_rate=member.finish_rate)
            for count in member.unfinished
        ]
        blocked = owned if member.state.blocked else ()
        states.append(member.state.model_copy(update={"partitions": owned, "blocked": blocked}))
    for pool, count in (orphaned or {}).items():
        partitions[pool].append(PartitionState(unfinished=count, finish_rate=0.0))
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=NOW_MS,
        published_at_ms=NOW_MS,
        threshold=threshold,
        pools={
            name: PoolState(
                paused=name in set(paused),
                routed_total=0,
                finished_total=0,
                partitions=tuple(known),
            )
            for name, known in partitions.items()
        },
        nodes=tuple(states),
        service=dict(service or {}),
        requests_included=(),
        retry_included=(),
    )


def fleet(
    *nodes: FleetNode,
    pools: tuple[Pool, ...] = POOLS_WITH_TP,
    models: Iterable[ModelRecord] = (),
    bindings: Mapping[str, tuple[str, str]] | None = None,
    mode: Mode = Mode.NORMAL,
    router: str = "router-1",
    **facts: Any,
) -> View:
    """Return the view of a router that has just read a snapshot of these nodes."""
    read = snapshot(nodes, **facts)
    widths = {name: max(1, len(state.partitions)) for name, state in read.pools.items()}
    view = View(pools, router, widths)
    view.mode = mode
    view.bindings = bindings or {}
    view.load_models({model.name: model for model in models})
    view.load(read, {})
    return view


def request(**features: Any) -> Features:
    """Return a normal request without an objective, unless said otherwise."""
    plain = {
        "model": "m",
        "priority": Priority.NORMAL,
        "slo_ms": None,
        "lora": False,
        "gflops": None,
        "expires_at_ms": LATER_MS,
    }
    return Features(**{**plain, **features})


def decide(view: View, features: Features, name: str = "overflow") -> Decision:
    """Return what the policy of that name decides at NOW_MS."""
    return policy(name).decide(features, view, NOW_MS)


def free(*names: str) -> list[FleetNode]:
    """Return nodes with nothing to do."""
    return [node(name) for name in names]


def full(name: str, **facts: Any) -> FleetNode:
    """Return a node whose 8 slots are taken and whose queue is 10 long: the threshold."""
    return node(name, unfinished=18, **facts)


EVERYWHERE = free("gpu-1", "cpu-1", "npu-1")
OVERLOADED = [full("gpu-1"), full("cpu-1"), full("npu-1")]


class Case(NamedTuple):
    """A sentence, what it is about, and the answer: pool (if any) and reason in one string."""

    sentence: str
    view: View
    features: Features
    answer: str

    def decided(self, name: str = "overflow") -> str:
        """Return what the policy of that name answers."""
        decision = decide(self.view, self.features, name)
        return " ".join([*([decision.pool] if decision.pool else []), decision.reason.value])
