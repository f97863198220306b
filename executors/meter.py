"""The metrics of a node: what it counts, by the declarations in `schemas.metrics`.

The only place of the executors that knows metrics; what the hot path needs is looked up once.
"""

from __future__ import annotations

from collections import Counter

from executors.backends.base import Load
from executors.heap import Urgency
from executors.work import Work
from runtime.metrics import Metrics, label_of
from runtime.settings import MetricsSettings
from schemas import canary
from schemas.control import NodeTotals
from schemas.metrics import executor as declared
from schemas.metrics.process import TRANSACTION_SECONDS
from schemas.outcomes import DeadLetterCategory, ErrorCategory, Status
from schemas.request import Priority

_PRIORITY = {
    Urgency.EXPRESS: Priority.REALTIME,
    Urgency.REALTIME: Priority.REALTIME,
    Urgency.NORMAL: Priority.NORMAL,
    Urgency.BATCH: Priority.BATCH,
}
"""Express work is urgent whatever its priority says, so it is counted as what it is treated as."""


class Meter:
    """Counts what a node does."""

    def __init__(self, metrics: Metrics, pool: str, names: MetricsSettings) -> None:
        self._metrics = metrics
        self._pool = pool
        self._ended: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._buried: Counter[str] = Counter()
        self._in_time: Counter[bool] = Counter()
        self._spent = 0.0
        self._models = frozenset(names.models)
        self._tenants = frozenset(names.tenants)
        self._busy = metrics.gauge(declared.BUSY, pool)
        self._queued = metrics.gauge(declared.QUEUED, pool)
        self._yielding = metrics.gauge(declared.YIELDING, pool)
        self._run = metrics.histogram(declared.RUN_SECONDS, pool)
        self._cost = metrics.counter(declared.COST, pool)
        self._retries = metrics.counter(declared.RETRIES, pool)
        self._transaction = metrics.histogram(TRANSACTION_SECONDS, metrics.role)
        self._waits = {
            urgency: metrics.histogram(declared.WAIT_SECONDS, pool, priority.value)
            for urgency, priority in _PRIORITY.items()
        }
        self._totals = {
            urgency: metrics.histogram(declared.END_TO_END_SECONDS, pool, priority.value)
            for urgency, priority in _PRIORITY.items()
        }
        self._results = {
            status: metrics.counter(declared.RESULTS, pool, status.value) for status in Status
        }
        self._slo = {
            met: metrics.counter(declared.SLO, pool, str(met).lower()) for met in (True, False)
        }

    def load(self, busy: int, queued: int, yielding: int) -> None:
        """Show slots in use, records that wait for one, and those that leave the last to others."""
        self._busy.set(busy)
        self._queued.set(queued)
        self._yielding.set(yielding)

    def engine(self, load: Load) -> None:
        """Show the engine's own queue."""
        for state, count in (("running", load.running), ("waiting", load.waiting)):
            if count is not None:
                self._metrics.gauge(declared.ENGINE_REQUESTS, self._pool, state).set(count)
        if load.kv_used is not None:
            self._metrics.gauge(declared.ENGINE_KV, self._pool).set(load.kv_used)

    def started(self, urgency: Urgency, waited_ms: float) -> None:
        """Count a start, and the time since the decision."""
        self._waits[urgency].observe(max(0.0, waited_ms) / 1000)

    def ran(self, work: Work, run_ms: float, cost: float) -> None:
        """Count a stay in a slot."""
        if work.request.tenant == canary.TENANT:
            self._metrics.counter(declared.CANARY_RUNS, self._pool).inc()
            return
        self._run.observe(run_ms / 1000)
        self._cost.inc(cost)
        self._spent += cost
        tenant = label_of(work.request.tenant, self._tenants)
        self._metrics.counter(declared.TENANT_COST, self._pool, tenant).inc(cost)

    def result(
        self, work: Work, status: Status, now_ms: float, category: ErrorCategory | None = None
    ) -> None:
        """Count a terminal result; a canary's is in no figure of callers'."""
        if work.request.tenant == canary.TENANT:
            return
        self._results[status].inc()
        self._ended[status.value] += 1
        model = label_of(work.request.model_name, self._models)
        self._metrics.counter(declared.MODEL_RESULTS, self._pool, model, status.value).inc()
        total_ms = max(0.0, now_ms - work.passage.arrived_at_ms)
        self._totals[work.urgency].observe(total_ms / 1000)
        if category is not None:
            self._metrics.counter(declared.ERRORS, self._pool, category.value).inc()
            self._failed[category.value] += 1
        if work.slo_ms is not None:
            met = total_ms <= work.slo_ms
            self._slo[met].inc()
            self._in_time[met] += 1

    def retried(self) -> None:
        """Count a try that will be repeated on this node."""
        self._retries.inc()

    def refused(self, category: ErrorCategory) -> None:
        """Count a request handed back to the routers."""
        self._metrics.counter(declared.REFUSALS, self._pool, category.value).inc()

    def rejected(self, category: DeadLetterCategory) -> None:
        """Count a pool record that could not be read."""
        self._metrics.counter(declared.DEAD_LETTERS, category.value).inc()
        self._buried[category.value] += 1

    def totals(self) -> NodeTotals:
        """Return what was counted since the start."""
        return NodeTotals(
            results=dict(self._ended),
            errors=dict(self._failed),
            dead_letters=dict(self._buried),
            cost=self._spent,
            met=self._in_time[True],
            missed=self._in_time[False],
        )

    def committed(self, seconds: float) -> None:
        """Count a transaction."""
        self._transaction.observe(seconds)
