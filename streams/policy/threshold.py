"""The overflow threshold: the depth of the gpu queue at which work goes elsewhere.

Control steps it once a second and publishes it; routers only read it.
"""

from __future__ import annotations

START = 10
FLOOR = 2
"""At least this much waits on the gpu before anything leaves it: below, every burst would spill."""
CEILING = 1000
"""A queue this long is an outage, not a preference."""

GPU_LONG = 5
"""Requests that wait for the gpu while the cpu has none: spill earlier."""
CPU_LONG = 10
GPU_SHORT = 3
"""The cpu is behind while the gpu could take more: spill later."""


def step(threshold: int, *, gpu_depth: float, cpu_depth: float) -> int:
    """Return the threshold for the next second, at most one away; depths are queue depths."""
    if cpu_depth == 0 and gpu_depth > GPU_LONG:
        return max(threshold - 1, FLOOR)
    if cpu_depth > CPU_LONG and gpu_depth < GPU_SHORT:
        return min(threshold + 1, CEILING)
    return threshold
