"""The desk of one control worker: what only this process knows, beside the shared tables.

Whether it is its turn to speak, when nodes were heard, and the term it speaks in. It folds and
reads the tables and does no I/O. Times are seconds of one monotonic clock, given by the caller, but
for when a sample was taken (`probed`): that is on the wall clock of the worker that took it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from operator import attrgetter

from schemas.control import NodeReport, Snapshot
from schemas.orders import THRESHOLD
from schemas.pools import CPU, GPU, Pool
from streams.control.nodes import Heard, Memo, finished_by, forgotten, node_states
from streams.control.orders import OrderRecord, fold_order, order_record
from streams.control.snapshot import fleet_view, make_snapshot
from streams.control.speeds import NOTHING, Measured, Speeds, speeds_of
from streams.control.tables import Tables
from streams.control.term import TICK_S, Term, is_due, obey, settled, tick
from streams.policy.controllers import Controller

_ID = attrgetter("node")
MEASURE_EVERY_S = 1.0
"""Run times change slowly, and those of 500 nodes take milliseconds to put together."""
SILENT_AFTER_S = 2.0
"""Without a snapshot for this long routers call what they know stale."""


class Desk:
    """One worker's view of its turn.

    Attributes:
        on_duty: set while this worker owns every input partition and its tables are complete.
        joined: whether the group has assigned partitions and the tables are complete.
        folded: set after each sample of its own term.
    """

    def __init__(self, tables: Tables, pools: tuple[Pool, ...], controller: Controller) -> None:
        self.on_duty = asyncio.Event()
        self.folded = asyncio.Event()
        self._tables = tables
        self._pools = pools
        self._controller = controller
        self._heard: dict[str, Heard] = {}
        self._states: Memo = {}
        self._glanced: dict[bytes, int] = {}
        self._since_s = 0.0
        self._spoke_s = float("-inf")
        self._asked_s: float | None = None
        self.joined = False
        self._fresh_nodes = self._fresh_lag = 0
        self._untold: list[OrderRecord] = []
        self._term: Term | None = None
        self._followed: Term | None = None
        self._tick_due_s = self._stepped_s = 0.0
        self._speeds = NOTHING
        self._measure_due_s = float("-inf")

    def take_duty(self, nodes_end: int, lag_end: int, now_s: float) -> None:
        """Begin the turn.

        The two topics end there now. Records before that fill the tables; they tell what was, and
        not that a node lives.
        """
        if not self.on_duty.is_set():
            self._tables.turn()
            self._glanced.clear()
            self._fresh_nodes, self._fresh_lag = nodes_end, lag_end
            self._since_s = now_s
            self.on_duty.set()
        self.joined = True

    def leave_duty(self) -> None:
        """End the turn: a partition was taken away, or this worker stops."""
        self.on_duty.clear()
        self.joined = False
        self.unasked()
        self.end_term()

    def stand_by(self) -> None:
        """Know that another worker has the turn, and that the tables are complete here too."""
        self.joined = True

    def unready(self, now_s: float) -> str | None:
        """Return why this worker neither speaks nor stands by; None if it does."""
        if not self.joined:
            return "joining"
        if not self.on_duty.is_set() or now_s - self._spoke_s < SILENT_AFTER_S:
            return None
        return "nothing published: waiting for the first reports, or the broker is away"

    def spoke(self, now_s: float) -> None:
        """Note that a snapshot was committed."""
        self._spoke_s = now_s

    def asked(self, now_s: float) -> None:
        """Note that a sample was put on `lag`, which is to come back from there."""
        if self._asked_s is None:
            self._asked_s = now_s

    def unasked(self) -> None:
        """Note that no sample can be had now: nothing has to come back."""
        self._asked_s = None

    def deaf_s(self, now_s: float) -> float:
        """Return for how long samples have not come back: none did since the first of them."""
        return 0.0 if self._asked_s is None else now_s - self._asked_s

    def begin_term(self, term: Term) -> None:
        """Speak from now on, in a term that the caller has fenced for."""
        self._term = term
        self.folded.clear()

    def end_term(self) -> None:
        """Stop speaking."""
        self._term = None
        self.folded.set()

    def report(self, offset: int, key: bytes | None, value: bytes | None, now_s: float) -> None:
        """Take one record of `nodes`; raise FormatError if it is none."""
        if offset < self._glanced.get(key or b"", -1):
            return  # while it waited for the agent, a later one of its node has passed it by
        node, report = self._tables.fold_report(key, value)
        if report is None:
            self._heard.pop(node, None)
            self._glanced.pop(key or b"", None)
        elif self._is_fresh(offset):
            self._hear(report, now_s)

    def glance(self, offset: int, key: bytes | None, value: bytes | None, now_s: float) -> bool:
        """Return whether a record of `nodes` was a report that no table needs; it is taken then."""
        report = self._tables.glance(key, value) if self._is_fresh(offset) else None
        if key is None or report is None:
            return False
        self._glanced[key] = offset
        self._hear(report, now_s)
        return True

    def sample(self, offset: int, _: bytes | None, value: bytes | None, now_s: float) -> None:
        """Take one record of `lag`, and step the threshold if a second has passed.

        Raises:
            FormatError: it is no sample.
        """
        probed_s = self._tables.fold_sample(value).probed_at_ms / 1000
        if self._term is not None and offset >= self._fresh_lag:
            self._step(self._term, probed_s, now_s)
            self.folded.set()
        self._asked_s = None

    def order(self, offset: int, key: bytes | None, value: bytes | None, _: float) -> None:
        """Take one record of `orders`; raise FormatError if it is none."""
        record = order_record(offset, key, value)
        if self._term is None or self._followed is not self._term:
            self._untold.append(record)
            return
        book = fold_order(self._tables.book, record)
        self._tables.fold_book(book)
        row = self._tables.threshold
        if row is not None:
            self._tables.fold_threshold(obey(row, book.standing.get(THRESHOLD)))

    def _is_fresh(self, offset: int) -> bool:
        return self.on_duty.is_set() and offset >= self._fresh_nodes

    def _hear(self, report: NodeReport, now_s: float) -> None:
        row = self._tables.lag
        finished = finished_by(report, None if row is None else row.sample)
        self._heard[report.node] = Heard(now_s, finished)

    def settled(self, now_s: float) -> bool:
        """Return whether there is a term and it knows enough of the nodes to speak of them."""
        term = self._term
        return term is not None and settled(term, self._tables.nodes, self._heard, now_s)

    def snapshot(self, number: int, published_at_ms: int, now_s: float) -> Snapshot | None:
        """Return what this worker would say now; None while it has nothing to say."""
        if not self.settled(now_s) or self._followed is not self._term:
            return None
        row, threshold, book = self._tables.lag, self._tables.threshold, self._tables.book
        if row is None or threshold is None:
            return None
        reports = self._tables.reports
        speeds = self._measure(reports, now_s)
        nodes = node_states(
            reports,
            book.standing,
            self._heard,
            row.sample,
            now_s,
            self._states,
            speeds.slowness,
        )
        return make_snapshot(
            row,
            nodes,
            threshold,
            book,
            number=number,
            published_at_ms=published_at_ms,
            speeds=speeds,
        )

    def _measure(self, reports: Iterable[NodeReport], now_s: float) -> Speeds:
        """Return what runs take, as nodes heard lately told it, at most a second old."""
        if now_s >= self._measure_due_s:
            self._measure_due_s = now_s + MEASURE_EVERY_S
            heard = [
                Measured(report.node, report.compute_type, report.service)
                for report in sorted(reports, key=_ID)
                if report.node in self._heard
            ]
            self._speeds = speeds_of(heard, self._speeds)
        return self._speeds

    def forgotten(self, now_s: float) -> list[str]:
        """Return the nodes to be removed after a long silence."""
        return forgotten(sorted(self._tables.nodes), self._heard, self._since_s, now_s)

    def _step(self, term: Term, probed_s: float, now_s: float) -> None:
        if self._followed is not term:
            self._follow(term)
        elif is_due(self._tick_due_s, probed_s, now_s - self._stepped_s) and self.settled(now_s):
            self._tick(now_s)
        else:
            return
        # Seconds missed in a pause are not made up for.
        self._tick_due_s, self._stepped_s = probed_s + TICK_S, now_s

    def _follow(self, term: Term) -> None:
        """Let the tables say what the term begins with, and the orders that came meanwhile."""
        book = term.book
        for record in self._untold:
            book = fold_order(book, record)
        self._tables.fold_book(book)
        self._tables.fold_threshold(obey(term.row, book.standing.get(THRESHOLD)))
        self._untold.clear()
        self._followed = term

    def _tick(self, now_s: float) -> None:
        now, threshold = self.snapshot(0, 0, now_s), self._tables.threshold
        if now is None or threshold is None:
            return
        view = fleet_view(now, self._pools)
        gpu_depth = view.pool(GPU).queue_depth
        cpu_depth = view.pool(CPU).queue_depth if CPU in view.pools else 0.0
        stepped = tick(
            threshold,
            self._controller,
            elapsed_s=TICK_S,
            gpu_depth=gpu_depth,
            cpu_depth=cpu_depth,
        )
        self._tables.fold_threshold(stepped)
