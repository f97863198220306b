"""Service times: how long runs of one model and size take, as nodes measure and control tells it.

Sizes are steps of estimated work. Within a size the time goes with the work, so what is told is ms
for each GFLOP; of requests without an estimate it is plain ms.
"""

from __future__ import annotations

from math import frexp

from schemas.message import Message

UNKNOWN_SIZE = -10_000
"""The size of requests that bring no estimate; no estimate has it."""
GFLOPS_MIN = 0.001
"""A MFLOP, as work is counted. Less counts as this: by an estimate near 0 the time for each GFLOP
would be infinite, which no report can carry, and its node would seem dead."""
_HALF_STEP = 0.5**0.5


class ServiceTime(Message):
    """What the last runs of one model and size took: medians and 95th percentiles.

    `p50` and `p95` are ms a GFLOP, plain ms where the size is unknown.
    """

    model: str
    size: int
    count: int
    """Runs behind it."""
    p50: float
    p95: float


def size_of(gflops: float | None) -> int:
    """Return the size of an estimate: one more for each factor of the square root of 2."""
    if not gflops:
        return UNKNOWN_SIZE
    share, power = frexp(max(gflops, GFLOPS_MIN))
    return 2 * power + (share >= _HALF_STEP)


def unit_of(gflops: float | None) -> float:
    """Return what a time is divided by to be told, and what is told multiplied by to be a time."""
    return max(gflops, GFLOPS_MIN) if gflops else 1.0
