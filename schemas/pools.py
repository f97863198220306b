"""Compute types, pools and their prices: the fleet as configured, before any node has reported.

Knows nothing of live nodes; those are in `schemas.control`.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from schemas.errors import UsageError

GPU = "gpu"
CPU = "cpu"
NPU = "npu"
GPU_TP = "gpu-tp"
"""Several GPUs a request (tensor parallel): chosen by its own rule, never by overflow."""

PoolName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class ComputeType(str, Enum):
    """What kind of device a pool's nodes have."""

    GPU = "gpu"
    CPU = "cpu"
    NPU = "npu"


class Pool(BaseModel):
    """A group of nodes that share topics and a price."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: PoolName
    compute_type: ComputeType
    cost_coefficient: float = Field(gt=0)
    """Price of one slot-second, in units of the gpu pool's."""
    express: bool = False
    """Has a second topic that its nodes drain first: realtime and strict-SLO work."""


DEFAULT_POOLS = (
    Pool(name=GPU, compute_type=ComputeType.GPU, cost_coefficient=1.0, express=True),
    Pool(name=CPU, compute_type=ComputeType.CPU, cost_coefficient=0.1),
    Pool(name=NPU, compute_type=ComputeType.NPU, cost_coefficient=0.3),
)

_TIE_ORDER = {ComputeType.CPU: 0, ComputeType.NPU: 1, ComputeType.GPU: 2}


def check_pools(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """Return the pools if they make a fleet, else raise UsageError."""
    names = [pool.name for pool in pools]
    if GPU not in names:
        raise UsageError(
            "the configuration has no pool named 'gpu'; add one: waiting work needs it"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UsageError(f"pool {repeated[0]!r} is configured twice; give each pool its own name")
    return pools


def check_configured(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """Return configured pools if they make a fleet that works, else raise UsageError."""
    for pool in check_pools(pools):
        if pool.name == GPU_TP and not (pool.express and pool.compute_type is ComputeType.GPU):
            raise UsageError(
                f"pool {GPU_TP!r} is for realtime work on several GPUs: give it compute_type = "
                '"gpu" and express = true'
            )
    return pools


def by_cost(pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """Return the pools cheapest first; equal prices in the order cpu, npu, gpu."""
    return tuple(
        sorted(pools, key=lambda p: (p.cost_coefficient, _TIE_ORDER[p.compute_type], p.name))
    )
