"""What the control plane hears and says: node reports, lag samples, model records, the snapshot.

All values are absolute, never increments: a message that is read twice changes nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import Field

from schemas.capability import Capability
from schemas.message import Message
from schemas.pools import ComputeType
from schemas.service import ServiceTime

SNAPSHOT_KEY = b"snapshot"
LAG_KEY = b"lag"

NODE_TTL_S = 3.0
"""A node without a report for this long is down: six reports missed."""


class NodeCondition(str, Enum):
    """What a node can do, by its own word; only ready and draining ones count as live."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """It finishes what it has and takes nothing new."""
    UNHEALTHY = "unhealthy"
    REFUSED = "refused"
    """Its backend failed the self-test."""


Count = Annotated[int, Field(ge=0)]


class NodeTotals(Message):
    """What a node has counted since its start, as its metrics say it."""

    results: dict[str, Count] = Field(default_factory=dict)
    """Terminal results by status."""
    errors: dict[str, Count] = Field(default_factory=dict)
    """Of these the errors, by category."""
    dead_letters: dict[str, Count] = Field(default_factory=dict)
    """By category."""
    cost: float = 0.0
    """Cost coefficient x slot-seconds."""
    met: Count = 0
    """Results in time, of those with an objective."""
    missed: Count = 0


class NodeReport(Message):
    """What a node says of itself, every 500 ms and at once on assignment; key: the node's id."""

    version: int = 1
    node: str
    pool: str
    compute_type: ComputeType
    generation: int
    """Of its group membership: of two nodes that claim a partition the higher one has it."""
    state: NodeCondition
    reason: str = ""
    """Why it is not ready, one line."""
    slots: Count
    busy: Count
    partitions: tuple[Count, ...] = ()
    blocked: tuple[Count, ...] = ()
    """Partitions it owns but cannot work on now."""
    models: tuple[str, ...] = ()
    """Models it serves; none listed means any."""
    adapters: tuple[str, ...] = ()
    backend: str
    engine: str = ""
    device: str = ""
    emulated: bool = False
    latency_mean_ms: float
    """Over its last 100 completions; before any, its self-test's time."""
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    completed: int = 0
    queued: tuple[Count, Count, Count] = (0, 0, 0)
    """Records that wait for a slot: normal ones, batch with an objective, batch without."""
    service: tuple[ServiceTime, ...] = ()
    """What its last runs took, by model and size."""
    capabilities: tuple[Capability, ...] = ()
    """What its self-test has proven, by model."""
    totals: NodeTotals = NodeTotals()
    reported_at_ms: int


class PartitionLag(Message):
    """One pool partition: its own topic and its express topic together."""

    routed: int
    finished: int
    unfinished: int
    routed_mflop: int = 0
    """Work counts are cumulative, modulo 2^64."""
    finished_mflop: int = 0
    unfinished_mflop: int = 0
    oldest_at_ms: int | None = None
    """When the oldest unfinished record arrived; None if there is none, or it is not known yet."""


class LagSample(Message):
    """One reading of all counts by the probe, finished read first; key: `lag`."""

    version: int = 1
    probed_at_ms: int
    took_ms: float
    pools: dict[str, tuple[PartitionLag, ...]]
    """By pool, in partition order."""
    requests_included: tuple[int, ...]
    """Per partition of `requests`: the committed offset these counts include (-1: none)."""
    retry_included: tuple[int, ...]
    consumed: int = 0
    """What routers have taken: what they have routed, and the four kinds that follow."""
    dead: int = 0
    expired: int = 0
    unroutable: int = 0
    duplicate: int = 0
    finished_dead: int = 0
    """Of what nodes finished: dead letters."""
    finished_expired: int = 0
    clamped: int = 0
    """How often routed - finished was below 0 in this reading, and shown as 0."""
    work_clamped: int = 0
    """How often it was so of work, or work was left where no record was, and shown as 0."""


class PartitionState(Message):
    """What routers need of one pool partition."""

    unfinished: int
    finish_rate: float
    """Records a second, smoothed over the last samples."""


class NodeState(Message):
    """What routers need of one node."""

    id: str
    pool: str
    live: bool
    draining: bool = False
    slots: int
    busy: int = 0
    partitions: tuple[int, ...] = ()
    blocked: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    latency_ms: float
    queued: tuple[int, int, int] = (0, 0, 0)
    """As reported: what waits there and may be passed by more urgent work."""
    slowness: float = 1.0
    """How many times as long as on its compute type's other nodes runs take."""
    reason: str = ""


class PoolState(Message):
    """One pool: totals for people, partitions for routers."""

    paused: bool = False
    """By an operator: it counts as down."""
    reason: str = ""
    """Who paused it and why."""
    routed_total: int
    finished_total: int
    partitions: tuple[PartitionState, ...]


class Freeze(Message):
    """An operator's hold on the threshold: who and why."""

    who: str
    why: str
    at_ms: int


class Heading(str, Enum):
    """Where the `stable` controller is moving the threshold."""

    HOLD = "hold"
    EARLIER = "earlier"
    LATER = "later"
    HOME = "home"


class Steering(Message):
    """What the `stable` controller remembers beside the threshold; durations, as clocks differ."""

    gpu_depth: float = 0.0
    """Smoothed, records."""
    cpu_depth: float = 0.0
    heading: Heading = Heading.HOLD
    unused_s: float = 0.0
    """For how long the gpu queue has been far below the threshold."""
    last_move: int = 0
    """The direction of the last move: -1, 1, or 0 before any."""
    rested_s: float = 0.0
    """Since then, up to the rest that a turn needs."""


class Snapshot(Message):
    """The one truth for every router; the only record of `control`, key `snapshot`.

    Attributes:
        number: grows by one a snapshot within a generation.
        generation: grows by one with every control worker that takes over.
        probed_at_ms, published_at_ms: both on the control worker's clock.
        orders_included: offset of `orders` before which every order is obeyed in it.
    """

    version: int = 1
    number: int
    generation: int
    probed_at_ms: int
    published_at_ms: int
    threshold: int
    freeze: Freeze | None = None
    steering: Steering | None = None
    """Of the `stable` controller; the article's rule needs none."""
    pools: dict[str, PoolState]
    nodes: tuple[NodeState, ...]
    service: dict[ComputeType, tuple[ServiceTime, ...]] = Field(default_factory=dict)
    """What runs take, by compute type, model and size."""
    requests_included: tuple[int, ...]
    retry_included: tuple[int, ...]
    orders_included: int = 0


class TypeSupport(Message):
    """How far one compute type runs a model: None means no restriction is known."""

    precisions: tuple[str, ...] | None = None
    operators: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    tokenizer_digest: str | None = None
    validated_at: str | None = None


class ModelRecord(Message):
    """One entry of the registry; topic `models`, key: the model's name."""

    version: int = 1
    name: str
    parameters: Annotated[int, Field(ge=1)] | None = None
    """Count of weights; under a billion the small-model rule applies."""
    precision: str | None = None
    """Of the weights, as fp16, int8 or int4: a compute type that lists others is excluded."""
    operators: tuple[str, ...] = ()
    """Self-written operators: the model runs only on types that list them."""
    tokenizer_digest: str | None = None
    pinned: tuple[ComputeType, ...] | None = None
    types: dict[ComputeType, TypeSupport] = Field(default_factory=dict)
    revision: int = 0
    """Of the registry, when this was written (`schemas.registry`); 0: not by a change of ours."""
