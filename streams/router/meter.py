"""Feeds the router's metrics from committed plans and from its state; decides nothing."""

from __future__ import annotations

from runtime.metrics import Metrics
from schemas.metrics import router as declared
from schemas.metrics.process import TRANSACTION_SECONDS
from schemas.outcomes import Mode
from streams.router.plan import Plan
from streams.router.shadow import Tally


class RouterMetrics:
    """Feeds the router's metrics from committed plans and from its state."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def committed(self, plan: Plan, seconds: float) -> None:
        """Count what one committed transaction did."""
        metrics = self._metrics
        metrics.histogram(TRANSACTION_SECONDS, metrics.role).observe(seconds)
        metrics.histogram(declared.BATCH_RECORDS).observe(len(plan.rows))
        for source, name in enumerate(("requests", "retry")):
            metrics.counter(declared.CONSUMED, name).inc(plan.consumed[source])
        for labels, count in plan.outcomes.items():
            metrics.counter(declared.DECISIONS, *labels).inc(count)
        for category, count in plan.deaths.items():
            metrics.counter(declared.DEAD_LETTERS, category).inc(count)
        metrics.counter(declared.SLO_MISSED).inc(plan.objectives_missed)
        metrics.counter(declared.DUPLICATES).inc(plan.duplicates)
        metrics.counter(declared.DROPPED_HEADERS).inc(plan.dropped_headers)

    def outlook(self, mode: Mode, age_s: float | None, models_revision: int) -> None:
        """Show how much the router knows."""
        self._metrics.gauge(declared.MODELS_REVISION).set(models_revision)
        for each in Mode:
            self._metrics.gauge(declared.MODE, each.value).set(each is mode)
        if age_s is not None:
            self._metrics.gauge(declared.SNAPSHOT_AGE_SECONDS).set(age_s)

    def shadow(self, tally: Tally) -> None:
        """Count what a shadow policy would have done."""
        metrics = self._metrics
        for pools, count in tally.pools.items():
            metrics.counter(declared.SHADOW_DECISIONS, *pools).inc(count)
        metrics.counter(declared.SHADOW_OTHERWISE).inc(tally.otherwise)
        metrics.counter(declared.SHADOW_FAILURES).inc(tally.failures)
        for side, cost in tally.cost.items():
            metrics.counter(declared.SHADOW_COST, side).inc(cost)
        for (side, met), count in tally.objectives.items():
            metrics.counter(declared.SHADOW_SLO, side, str(met).lower()).inc(count)
