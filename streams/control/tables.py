"""The four tables of the control plane, and the only functions that write them.

Rows are bytes of versioned messages, so a changelog written by one release is read by the next. Any
mapping will do as a table: in the worker they are Faust's, which only an agent may write.

Beside the rows stands what this worker has folded itself, decoded: 500 nodes report 1,000 times a
second, and reading all rows for each snapshot, or writing a row for each report, would take a core.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from schemas.control import LAG_KEY, LagSample, NodeReport
from schemas.errors import FormatError
from schemas.message import decode, encode
from streams.control.orders import OrderBook
from streams.control.rates import LagRow, fold_sample
from streams.control.term import ThresholdRow

Table = MutableMapping[bytes, bytes]

THRESHOLD_KEY = b"threshold"
BOOK_KEY = b"book"


def changelog(prefix: str, table: str) -> str:
    """Return the topic in which Faust keeps a table of the app `{prefix}control`."""
    return f"{prefix}control-{table}-changelog"


class Tables:
    """The tables of lag, threshold and orders, one row each, and of nodes, a row a node."""

    def __init__(self, lag: Table, threshold: Table, nodes: Table, orders: Table) -> None:
        self._lag = lag
        self._threshold = threshold
        self._nodes = nodes
        self._orders = orders
        self._row: LagRow | None = None
        self._reports: dict[bytes, NodeReport] = {}

    def turn(self) -> None:
        """Forget what stands beside the rows: another worker may have written them meanwhile."""
        self._row = None
        self._reports.clear()

    @property
    def lag(self) -> LagRow | None:
        """Return the last sample with the pace of each partition; None before any."""
        if self._row is None:
            value = self._lag.get(LAG_KEY)
            self._row = None if value is None else decode(LagRow, value)
        return self._row

    @property
    def threshold(self) -> ThresholdRow | None:
        """Return the threshold in force; None before any term."""
        value = self._threshold.get(THRESHOLD_KEY)
        return None if value is None else decode(ThresholdRow, value)

    @property
    def book(self) -> OrderBook:
        """Return the orders in force; an empty book before any term."""
        value = self._orders.get(BOOK_KEY)
        return OrderBook() if value is None else decode(OrderBook, value)

    @property
    def reports(self) -> list[NodeReport]:
        """Return the last report of every node that has not taken its leave."""
        for key in self._nodes.keys() - self._reports.keys():
            self._reports[key] = decode(NodeReport, self._nodes[key])
        return list(self._reports.values())

    @property
    def nodes(self) -> frozenset[str]:
        """Return the ids of these nodes."""
        return frozenset(key.decode() for key in self._nodes)

    def fold_sample(self, value: bytes | None) -> LagSample:
        """Fold one record of `lag` and return it; raise FormatError if it is no sample."""
        sample = decode(LagSample, _present(value))
        self._row = fold_sample(self.lag, sample)
        self._lag[LAG_KEY] = encode(self._row)
        return sample

    def fold_report(self, key: bytes | None, value: bytes | None) -> tuple[str, NodeReport | None]:
        """Fold one record of `nodes`, a report or a leave (None), and return whose and which.

        A row holds the last report that says something lasting. Who takes over judges no node by
        it before the node's next report, and that brings loads and latencies along.

        Raises:
            FormatError: it is neither.
        """
        if value is None:
            # A leave is only a key: bytes that are no name belong to no node.
            self._nodes.pop(_present(key), None)
            self._reports.pop(_present(key), None)
            return _present(key).decode(errors="replace"), None
        report = decode(NodeReport, value)
        if key != report.node.encode():
            raise FormatError(f"a report of node {report.node!r} stands under another key")
        if not self.passing(key, report):
            self._nodes[key] = value
        self._reports[key] = report
        return report.node, report

    def passing(self, key: bytes, report: NodeReport) -> bool:
        """Return whether a report says of its node nothing lasting that is not in the table."""
        known = self._reports.get(key)
        return known is not None and _lasting(known) == _lasting(report)

    def glance(self, key: bytes | None, value: bytes | None) -> NodeReport | None:
        """Take a report that needs no row, and return it; None if it must be folded."""
        if key not in self._reports or value is None:
            return None
        try:
            report = decode(NodeReport, value)
        except FormatError:
            return None
        if key != report.node.encode() or not self.passing(key, report):
            return None
        self._reports[key] = report
        return report

    def fold_threshold(self, row: ThresholdRow) -> None:
        """Replace the threshold's row."""
        self._threshold[THRESHOLD_KEY] = encode(row)

    def fold_book(self, book: OrderBook) -> None:
        """Replace the order book."""
        self._orders[BOOK_KEY] = encode(book)


def _lasting(report: NodeReport) -> tuple[object, ...]:
    """Return what a report says of a node beyond the moment."""
    return (
        report.pool,
        report.generation,
        report.state,
        report.reason,
        report.slots,
        report.partitions,
        report.blocked,
        report.models,
        report.adapters,
        report.backend,
        report.engine,
        report.device,
    )


def _present(value: bytes | None) -> bytes:
    if value is None:
        raise FormatError("a record without a key or value where one is needed")
    return value
