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


class _Runs:
    """The last runs of one model and size; `shown` is what they come to, None until it is read."""

    __slots__ = ("last_ms", "shown", "times")

    def __init__(self) -> None:
        self.times: deque[float] = deque(maxlen=WINDOW)
        self.last_ms = 0.0
        self.shown: ServiceTime | None = None


class ServiceTimes:
    """The last runs by model and size."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, int], _Runs] = OrderedDict()
        self._told: tuple[ServiceTime, ...] | None = ()

    def add(self, model: str, gflops: float | None, run_ms: float, now_ms: float) -> None:
        """Take one completion."""
        kind = model, size_of(gflops)
        runs = self._runs.get(kind)
        if runs is None:
            runs = self._runs[kind] = _Runs()
            if len(self._runs) > KINDS_MAX:
                self._runs.popitem(last=False)
        else:
            self._runs.move_to_end(kind)
        runs.times.append(run_ms / unit_of(gflops))
        runs.last_ms, runs.shown = now_ms, None
        self._told = None

    def read(self, now_ms: float) -> tuple[ServiceTime, ...]:
        """Return what the windows show now, the model and size used last at the end."""
        while self._runs and now_ms - next(iter(self._runs.values())).last_ms > FORGET_MS:
            self._runs.popitem(last=False)
            self._told = None
        if self._told is None:
            self._told = tuple(
                [runs.shown or _show(kind, runs) for kind, runs in self._runs.items()]
            )
        return self._told


def _show(kind: tuple[str, int], runs: _Runs) -> ServiceTime:
    """Work out what run times come to: nearest-rank percentiles."""
    model, size = kind
    times = sorted(runs.times)
    count = len(times)
    p50, p95 = times[math.ceil(count * 0.50) - 1], times[math.ceil(count * 0.95) - 1]
    runs.shown = ServiceTime(model=model, size=size, count=count, p50=p50, p95=p95)
    return runs.shown
