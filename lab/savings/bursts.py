"""How bursty a trace is, by its work: what a fleet has to be large for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lab.simulator.traces import Arrival
from lab.simulator.workload import WRITTEN

WINDOW_S = 3.0
"""About as long as objectives leave most requests to wait."""


def burstiness(arrivals: Sequence[Arrival]) -> float:
    """Return the most work that comes in 3 s, in means; 1 where there is no work."""
    work: defaultdict[int, float] = defaultdict(float)
    for one in arrivals:
        work[_window(one)] += one.prompt_tokens + WRITTEN * one.output_tokens
    total = sum(work.values())
    return max(work.values()) * (_window(arrivals[-1]) + 1) / total if total else 1.0


def _window(arrival: Arrival) -> int:
    return int(arrival.at_ms / 1000 / WINDOW_S)
