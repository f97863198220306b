"""How long runs take on this node, by model and size: what its reports tell beside the mean.

Pure; time is an argument. A window by count for each model and size, so that it follows a change
within a window's runs; what has not run for long is forgotten, as it may have changed meanwhile.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque

from schemas.service import ServiceTime, size_of, unit_of

WINDOW = 40
"""Runs of one model and size: enough for a 95th percentile, few enough to forget a slow spell."""
KINDS_MAX = 24
"""Models and sizes a report tells of, the ones used last: 2 KB at most."""
FORGET_MS = 600_000.0
"""Ten minutes without a run: what was measured before may not be true any more."""


class ServiceTimes:
    """The last runs by model and size."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, int], deque[float]] = OrderedDict()
        self._last_ms: dict[tuple[str, int], float] = {}
        self._shown: dict[tuple[str, int], ServiceTime] = {}
        self._changed: set[tuple[str, int]] = set()
        self._told: tuple[ServiceTime, ...] | None = ()

    def add(self, model: str, gflops: float | None, run_ms: float, now_ms: float) -> None:
        """Take one completion."""
        kind = model, size_of(gflops)
        runs = self._runs.get(kind)
        if runs is None:
            runs = self._runs[kind] = deque(maxlen=WINDOW)
            if len(self._runs) > KINDS_MAX:
                self._forget(next(iter(self._runs)))
        runs.append(run_ms / unit_of(gflops))
        self._runs.move_to_end(kind)
        self._last_ms[kind] = now_ms
        self._changed.add(kind)
        self._told = None

    def read(self, now_ms: float) -> tuple[ServiceTime, ...]:
        """Return what the windows show now, the model and size used last at the end."""
        while self._runs and now_ms - self._last_ms[next(iter(self._runs))] > FORGET_MS:
            self._forget(next(iter(self._runs)))
        if self._told is None:
            for kind in self._changed:
                self._shown[kind] = _shown(kind, sorted(self._runs[kind]))
            self._changed.clear()
            self._told = tuple([self._shown[kind] for kind in self._runs])
        return self._told

    def _forget(self, kind: tuple[str, int]) -> None:
        del self._runs[kind], self._last_ms[kind]
        self._shown.pop(kind, None)
        self._changed.discard(kind)
        self._told = None


def _shown(kind: tuple[str, int], runs: list[float]) -> ServiceTime:
    """Return what run times, in order, come to: nearest-rank percentiles."""
    model, size = kind
    count = len(runs)
    p50, p95 = runs[math.ceil(count * 0.50) - 1], runs[math.ceil(count * 0.95) - 1]
    return ServiceTime(model=model, size=size, count=count, p50=p50, p95=p95)
