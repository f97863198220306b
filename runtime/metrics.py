"""Collectors made from the declarations in `schemas.metrics`, on a registry of this process's own.

Knows no role: each asks for the metrics that it feeds. Nothing is registered globally, so two roles
in one process do not meet. Series are bounded: names that callers choose go through `label_of`, and
beyond a cap a series is not kept, but counted.
"""

from __future__ import annotations

from collections.abc import Collection
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

from schemas.metrics.declaration import OTHER, SERIES_MAX, Metric
from schemas.metrics.process import BUILD_INFO, SERIES_DROPPED

# What docs/metrics.md lists is all there is: no second series that says when each one began.
disable_created_metrics()  # type: ignore[no-untyped-call]


def label_of(name: str | None, listed: Collection[str]) -> str:
    """Return the label value of a name that a caller chose: itself if it is listed."""
    return name if name is not None and name in listed else OTHER


class Metrics:
    """The metrics of one role; `counter(METRIC, "gpu").inc()` and its like feed them."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, role: str, version: str) -> None:
        self.role = role
        self.version = version
        self.registry = CollectorRegistry()
        self._collectors: dict[str, Counter | Gauge | Histogram] = {}
        self._children: dict[str, dict[tuple[str, ...], Any]] = {}
        self._unkept: dict[str, Any] = {}
        self.gauge(BUILD_INFO, version, role).set(1)

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
            self._children[metric.name].pop(labels, None)
            collector.remove(*labels)
        else:
            del self._collectors[metric.name], self._children[metric.name]
            self.registry.unregister(collector)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _child(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        collector = self._collectors.get(metric.name)
        if collector is None:
            collector = self._collectors[metric.name] = _collector(metric, self.registry)
            self._children[metric.name] = {}
        if not metric.labels:
            return collector
        children = self._children[metric.name]
        child = children.get(labels)
        if child is None:
            if len(children) >= SERIES_MAX:
                self.counter(SERIES_DROPPED, metric.name).inc()
                return self._not_kept(metric)
            child = children[labels] = collector.labels(*labels)
        return child

    def _not_kept(self, metric: Metric) -> Any:
        """Return where samples go that are not kept: one nameless collector of each kind."""
        if metric.kind not in self._unkept:
            nameless = metric._replace(labels=())
            self._unkept[metric.kind] = _collector(nameless, registry=None)
        return self._unkept[metric.kind]


def _collector(metric: Metric, registry: CollectorRegistry | None) -> Counter | Gauge | Histogram:
    if metric.kind == "counter":
        return Counter(metric.name, metric.help, metric.labels, registry=registry)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.help, metric.labels, registry=registry)
    return Histogram(
        metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets
    )
