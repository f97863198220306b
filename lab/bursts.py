"""How bursty a trace is, by its work: what a fleet has to be large for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lab.simulator.traces import Arrival
from lab.simulator.workload import WRITTEN

WINDOW_S = 3.0
"""About as long as objectives leave most requests to wait."""


def burstiness(arrivals: Sequence[Arrival]) -> float:
    """Return the most work that comes in 3 s, in means."""
    work: defaultdict[int, float] = defaultdict(float)
    for one in arrivals:
        work[_window(one)] += one.prompt_tokens + WRITTEN * one.output_tokens
    return max(work.values()) * (_window(arrivals[-1]) + 1) / sum(work.values())


def _window(arrival: Arrival) -> int:
    return int(arrival.at_ms / 1000 / WINDOW_S)
