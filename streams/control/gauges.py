"""The control plane's metrics: what the last snapshot says, in numbers.

Only the worker that speaks has them; the others say that they stand by.
"""

from __future__ import annotations

from collections import Counter

from runtime.metrics import Metrics
from schemas.control import LagSample, Snapshot
from schemas.metrics import control as declared
from schemas.orders import Verb
from schemas.pools import Pool
from streams.control.lag_table import LagLine, LagTable
from streams.control.snapshot import fleet_view, holes
from streams.control.tables import Tables

SPOKEN = (
    declared.THRESHOLD,
    declared.ORDERS,
    declared.LAG_HOLES,
    declared.LAG_RECORDS,
    declared.LAG_WORK,
    declared.LAG_WORK_SECONDS,
    declared.LAG_AGE,
    declared.LAG_DRAIN,
    declared.ARRIVAL_RATE,
    declared.FINISH_RATE,
    declared.QUEUE_DEPTH,
    declared.SLOTS,
    declared.FREE_SLOTS,
    declared.LIVE_NODES,
)
"""Only the worker that speaks exports these: a reader cannot tell a stale value from a live one."""


class Gauges:
    """Feeds the metrics of one control worker."""

    def __init__(self, metrics: Metrics, tables: Tables, pools: tuple[Pool, ...]) -> None:
        self._metrics = metrics
        self._tables = tables
        self._pools = pools
        self.silent()

    def probed(self, sample: LagSample) -> None:
        """Count one reading."""
        self._metrics.histogram(declared.PROBE_SECONDS).observe(sample.took_ms / 1000)
        self._metrics.counter(declared.LAG_CLAMPS).inc(sample.clamped)
        self._metrics.counter(declared.WORK_CLAMPS).inc(sample.work_clamped)

    def unreadable(self, topic: str) -> None:
        """Count a record of an input topic that was none."""
        self._metrics.counter(declared.UNREADABLE, topic).inc()

    def published(self) -> None:
        """Count a snapshot."""
        self._metrics.counter(declared.SNAPSHOTS).inc()

    def silent(self) -> None:
        """Say that this worker does not speak, and nothing of what it said last."""
        self._metrics.gauge(declared.ACTIVE).set(0)
        for metric in SPOKEN:
            self._metrics.forget(metric)

    def show(self, snapshot: Snapshot) -> None:
        """Set every gauge to what the snapshot says."""
        self._metrics.gauge(declared.ACTIVE).set(1)
        self._metrics.gauge(declared.THRESHOLD).set(snapshot.threshold)
        standing = Counter(order.what for order in self._tables.book.standing.values())
        for what in (Verb.DRAIN, Verb.PAUSE, Verb.FREEZE):
            self._metrics.gauge(declared.ORDERS, what.value).set(standing[what])
        row = self._tables.lag
        if row is not None:
            self._metrics.gauge(declared.LAG_HOLES).set(holes(row, snapshot.nodes))
            table = LagTable(row.sample, row.paces, snapshot.nodes, snapshot.published_at_ms)
            for name, line in table.pools().items():
                self._show_line(name, line)
        view = fleet_view(snapshot, self._pools)
        for pool in self._pools:
            seen = view.pool(pool.name)
            live = [node for node in snapshot.nodes if node.live and node.pool == pool.name]
            values = {
                declared.LAG_RECORDS: sum(seen.unfinished),
                declared.QUEUE_DEPTH: seen.queue_depth,
                declared.SLOTS: sum(node.slots for node in live),
                declared.FREE_SLOTS: seen.free_slots,
                declared.LIVE_NODES: len(live),
            }
            for metric, value in values.items():
                self._metrics.gauge(metric, pool.name).set(value)

    def _show_line(self, pool: str, line: LagLine) -> None:
        values = {
            declared.LAG_WORK: line.work_gflops,
            declared.LAG_WORK_SECONDS: line.work_s,
            declared.LAG_AGE: line.oldest_age_s,
            declared.LAG_DRAIN: line.drain_s,
            declared.ARRIVAL_RATE: line.arrival_rate,
            declared.FINISH_RATE: line.finish_rate,
        }
        for metric, value in values.items():
            if value is None:  # nothing can be said now: no series, rather than one that is old
                self._metrics.forget(metric, pool)
            else:
                self._metrics.gauge(metric, pool).set(value)
