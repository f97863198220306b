"""Shows what happens to a host's partitions in the metrics; router and executors share it."""

from __future__ import annotations

from runtime.kafka.lanes import LaneHost
from runtime.metrics import Metrics
from schemas.metrics import process as declared

_TOTALS = {
    "assignments": declared.ASSIGNMENTS,
    "first_starts": declared.FIRST_STARTS,
    "fenced": declared.FENCED,
    "unknown_outcomes": declared.UNKNOWN_OUTCOMES,
    "fetch_errors": declared.FETCH_ERRORS,
}


class HostMeter:
    """Feeds the metrics of one host whenever `show` is called."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._shown = dict.fromkeys(_TOTALS, 0)

    def show(self, host: LaneHost) -> None:
        """Set the gauges, and add to the counters what came since the last call."""
        role = self._metrics.role
        self._metrics.gauge(declared.ASSIGNED_PARTITIONS, role).set(len(host.assigned))
        for name, metric in _TOTALS.items():
            total: int = getattr(host.counts, name)
            self._metrics.counter(metric, role).inc(total - self._shown[name])
            self._shown[name] = total
