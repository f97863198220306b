"""Collectors made from the declarations in `schemas.metrics`, on a registry of this process's own.

Knows no role: each asks for the metrics that it feeds. Nothing is registered globally, so two roles
in one process do not meet.
"""

from __future__ import annotations

from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from schemas import metrics as declared
from schemas.metrics import Metric

# What docs/metrics.md lists is all there is: no second series that says when each one began.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """The metrics of one role; `counter(METRIC, "gpu").inc()` and its like feed them."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, role: str, version: str) -> None:
        self.role = role
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Counter | Gauge | Histogram] = {}
        self.gauge(declared.BUILD_INFO, version, role).set(1)

    def counter(self, metric: Metric, *labels: str) -> Counter:
        """Return the counter with these label values."""
        child: Counter = self._child(metric, labels)
        return child

    def gauge(self, metric: Metric, *labels: str) -> Gauge:
        """Return the gauge with these label values."""
        child: Gauge = self._child(metric, labels)
        return child

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Return the histogram with these label values."""
        child: Histogram = self._child(metric, labels)
        return child

    def forget(self, metric: Metric, *labels: str) -> None:
        """Export the metric no more until it is asked for again: what it says has become stale.

        With label values, only that series of it.
        """
        collector = self._collectors.get(metric.name)
        if collector is None:
            return
        if labels:
            collector.remove(*labels)
        else:
            del self._collectors[metric.name]
            self.registry.unregister(collector)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        collector = self._collectors.get(metric.name)
        if collector is None:
            collector = self._collectors[metric.name] = _collector(metric, self.registry)
        return collector.labels(*labels) if metric.labels else collector


def _collector(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    if metric.kind == "counter":
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.help, metric.labels, registry=registry)
    return Histogram(
        metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
    )
