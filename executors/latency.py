"""How long runs take on this node: a window of the last completions, for its reports.

Pure. A window by count and not by time: an idle node is not a fast one, and its last known speed is
the best guess.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

WINDOW = 100
"""Completions: enough for a 99th percentile, few enough to follow a change within seconds."""


class Latency(NamedTuple):
    """Mean and nearest-rank percentiles, ms; percentiles are None before the first completion."""

    mean_ms: float
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None


class LatencyWindow:
    """The last run times, and the self-test's before there are any."""

    def __init__(self, self_test_ms: float) -> None:
        self._runs: deque[float] = deque(maxlen=WINDOW)
        self._shown: Latency | None = Latency(self_test_ms)
        self.completed = 0

    def add(self, run_ms: float) -> None:
        """Take one completion."""
        self._runs.append(run_ms)
        self._shown = None
        self.completed += 1

    def read(self) -> Latency:
        """Return what the window shows now."""
        if self._shown is None:  # a report comes twice a second, a completion may be rarer
            ordered = sorted(self._runs)
            ranks = [ordered[math.ceil(len(ordered) * share) - 1] for share in (0.50, 0.95, 0.99)]
            self._shown = Latency(sum(ordered) / len(ordered), *ranks)
        return self._shown
