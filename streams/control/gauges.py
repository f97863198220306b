"""The control plane's metrics: what the last snapshot says, in numbers.

Only the worker that speaks has them; the others say that they stand by.
"""

from __future__ import annotations

import time
from collections import Counter

from runtime.metrics import Metrics
from schemas.control import LagSample, Snapshot
from schemas.metrics import control as declared
from schemas.orders import Verb
from schemas.pools import Pool
from streams.board.board import Board
from streams.board.seen import look
from streams.control.lag_table import LagLine
from streams.control.tables import Tables

SPOKEN = (
    declared.UNDECIDED,
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
    declared.DOWN_NODES,
    declared.SLOW_NODES,
)
"""Only the worker that speaks exports these: a reader cannot tell a stale value from a live one."""


class Gauges:
    """Feeds the metrics of one control worker, and its board."""

    def __init__(
        self, metrics: Metrics, tables: Tables, pools: tuple[Pool, ...], board: Board
    ) -> None:
        self._board = board
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
        self._board.silent()

    def show(self, snapshot: Snapshot) -> None:
        """Set every gauge to what the snapshot says."""
        self._metrics.gauge(declared.ACTIVE).set(1)
        self._metrics.gauge(declared.THRESHOLD).set(snapshot.threshold)
        standing = Counter(order.what for order in self._tables.book.standing.values())
        for what in (Verb.DRAIN, Verb.PAUSE, Verb.FREEZE):
            self._metrics.gauge(declared.ORDERS, what.value).set(standing[what])
        seen = look(snapshot, self._tables.lag, self._tables.reports, self._pools, self._board.ends)
        self._board.see(seen, time.monotonic())
        self._metrics.gauge(declared.LAG_HOLES).set(seen.holes)
        if seen.undecided is not None:
            self._metrics.gauge(declared.UNDECIDED).set(seen.undecided)
        for name, pool in seen.pools.items():
            values = {
                declared.LAG_RECORDS: pool.unfinished,
                declared.QUEUE_DEPTH: pool.queue_depth,
                declared.SLOTS: pool.slots,
                declared.FREE_SLOTS: pool.free_slots,
                declared.LIVE_NODES: pool.nodes,
                declared.DOWN_NODES: pool.down,
                declared.SLOW_NODES: pool.slow,
            }
            for metric, value in values.items():
                self._metrics.gauge(metric, name).set(value)
            if pool.line is not None:
                self._show_line(name, pool.line)

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
