"""What-if: one line of `overspill decide`, turned into what a router has, and the policy's answer.

There is no second copy of a rule here: the router's own view and policy answer.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.control import ModelRecord, NodeState, PartitionState, PoolState, Snapshot
from schemas.document import to_json
from schemas.errors import RecordRejected
from schemas.features import Features, features_of
from schemas.outcomes import DeadLetterCategory, Mode
from schemas.parsing import parse_request
from schemas.pools import DEFAULT_POOLS, GPU_TP, ComputeType, Pool, PoolName
from schemas.request import epoch_ms
from streams.policy import Policy, View

_ROUTER = "decide"
"""Breaks ties between nodes: always the same way, so that a question has one answer."""


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    id: str
    pool: PoolName
    compute_type: ComputeType
    slots: Annotated[int, Field(ge=0)]
    unfinished: Annotated[int, Field(ge=0)] = 0
    available_slots: int | None = None
    """Said instead of `unfinished`; may exceed `slots`."""
    avg_latency_ms: Annotated[float, Field(ge=0)] = 0.0
    cost_coefficient: Annotated[float, Field(gt=0)]
    models: tuple[str, ...] = ()

    @property
    def load(self) -> int:
        return (
            self.unfinished if self.available_slots is None else self.slots - self.available_slots
        )


class _Snapshot(BaseModel):
    threshold: int
    nodes: tuple[_Node, ...] = ()
    queue_depth: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    """By pool; said instead of what the nodes' loads make it."""
    down: tuple[str, ...] = ()
    """Pools that are down; one without nodes is not, unless it stands here."""
    models: tuple[ModelRecord, ...] = ()
    """The registry; without it no model is known."""


class _Line(BaseModel):
    request: dict[str, Any]
    snapshot: _Snapshot
    now: float
    """Epoch ms."""


def answer_line(raw: bytes, chosen: Policy) -> dict[str, Any]:
    """Return the decision for one line; raise RecordRejected if it cannot be read."""
    try:
        line = _Line.model_validate(orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        raise RecordRejected(
            DeadLetterCategory.NOT_JSON, f"the line is not JSON (column {error.colno})"
        ) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{where}: {first['msg']}" if where else "the line is JSON but not an object"
        raise RecordRejected(DeadLetterCategory.INVALID_FIELD, told) from None
    now_ms = int(line.now)
    decision = chosen.decide(_features(line.request, now_ms), _view(line.snapshot), now_ms)
    return {
        "pool": decision.pool,
        "node": decision.node,
        "reason": decision.reason,
        "excluded": dict(decision.excluded),
        "threshold": decision.threshold,
    }


def _features(document: dict[str, Any], now_ms: int) -> Features:
    # The policy never reads the payload, so a question may leave it out.
    request = parse_request(to_json({"payload": {}, **document}))
    arrived_at_ms = now_ms if request.arrived_at is None else int(epoch_ms(request.arrived_at))
    return features_of(request, arrived_at_ms=arrived_at_ms, key=request.id.encode())


def _view(snapshot: _Snapshot) -> View:
    pools = _pools(snapshot)
    of_pool: dict[str, list[_Node]] = {pool.name: [] for pool in pools}
    states = []
    for node in snapshot.nodes:
        # One partition a node: its load is that partition's.
        states.append(_state(node, partition=len(of_pool[node.pool])))
        of_pool[node.pool].append(node)
    view = View(pools, _ROUTER, {name: max(1, len(nodes)) for name, nodes in of_pool.items()})
    view.mode = Mode.NORMAL
    view.load_models({model.name: model for model in snapshot.models})
    view.load(
        Snapshot(
            number=0,
            generation=0,
            probed_at_ms=0,
            published_at_ms=0,
            threshold=snapshot.threshold,
            pools={name: _counts(nodes) for name, nodes in of_pool.items()},
            nodes=tuple(states),
            requests_included=(),
            retry_included=(),
        ),
        own={},
    )
    view.assume(queue_depth=snapshot.queue_depth, down=snapshot.down)
    return view


def _pools(snapshot: _Snapshot) -> tuple[Pool, ...]:
    """Return the default pools and those of the nodes, priced as the nodes say."""
    named = Counter(node.id for node in snapshot.nodes)
    if repeated := [node for node, times in named.items() if times > 1]:
        raise _inconsistent(f"nodes: {repeated[0]} stands there twice; give each node its own id")
    stated: dict[str, tuple[ComputeType, float]] = {}
    for node in snapshot.nodes:
        said = (node.compute_type, node.cost_coefficient)
        if stated.setdefault(node.pool, said) != said:
            raise _inconsistent(
                f"nodes: pool {node.pool} has two compute types or prices; give it one of each"
            )
    pools = {pool.name: pool for pool in DEFAULT_POOLS} | {
        name: Pool(name=name, compute_type=compute_type, cost_coefficient=price)
        for name, (compute_type, price) in stated.items()
    }
    if unknown := {*snapshot.queue_depth, *snapshot.down} - {*pools, GPU_TP}:
        raise _inconsistent(
            f"queue_depth, down: no pool is named {min(unknown)}; name one of yours"
        )
    return tuple(pools.values())


def _counts(nodes: list[_Node]) -> PoolState:
    return PoolState(
        routed_total=0,
        finished_total=0,
        partitions=tuple(PartitionState(unfinished=node.load, finish_rate=0.0) for node in nodes),
    )


def _state(node: _Node, partition: int) -> NodeState:
    return NodeState(
        id=node.id,
        pool=node.pool,
        live=True,
        slots=node.slots,
        # As low as `unfinished` goes: more slots may be said to be free than there are.
        busy=node.load,
        partitions=(partition,),
        models=node.models,
        latency_ms=node.avg_latency_ms,
    )


def _inconsistent(message: str) -> RecordRejected:
    return RecordRejected(DeadLetterCategory.INVALID_FIELD, f"snapshot.{message}")
