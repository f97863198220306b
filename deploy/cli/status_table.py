"""The status as tables: pools, lag, what nodes have proven, and a few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.cli.ago import ago
from deploy.cli.tables import table
from schemas.orders import POOL
from streams.control.lag_table import LagLine
from streams.control.reports import proofs
from streams.status import StandingOrder, SystemStatus

NUMBERS = ("unfinished", "queue depth", "free slots", "nodes", "avg ms", "routed", "finished")
LAG_NUMBERS = (
    "unfinished", "oldest s", "arriving/s", "finishing/s", "drain s", "work GFLOP", "work s",
)  # fmt: skip

DIGEST_SHOWN = 8
"""Hex digits: enough to see that two differ."""


def status_view(status: SystemStatus, *, lag: bool = False) -> RenderableType:
    """Return the status for a terminal; with `lag`, every line of the lag table."""
    pools = table(("pool",), NUMBERS)
    for name, pool in status.pools.items():
        pools.add_row(
            name,
            str(pool.unfinished),
            f"{pool.queue_depth:g}",
            f"{pool.free_slots:g} of {pool.slots}",
            str(pool.nodes),
            f"{pool.avg_latency_ms:.0f}",
            str(pool.routed_total),
            str(pool.finished_total),
        )
    lags = [_lag_view("pool", [(name, pool.lag) for name, pool in status.pools.items()])]
    if lag:
        partitions = [
            (f"{pool} {number}", line)
            for pool, lines in status.partition_lags.items()
            for number, line in enumerate(lines)
        ]
        lags += [
            _lag_view("node", status.node_lags.items()),
            _lag_view("partition", partitions),
        ]
    tables = (pools, *lags, *_proven_view(status))
    spaced = [part for each in tables for part in (each, Text())]
    return Group(*spaced, *(Text(line) for line in _lines(status)))


def _lag_view(heading: str, lines: Iterable[tuple[str, LagLine]]) -> Table:
    lags = table((heading,), LAG_NUMBERS)
    for name, line in lines:
        lags.add_row(
            name,
            str(line.unfinished),
            _number(line.oldest_age_s),
            _number(line.arrival_rate),
            _number(line.finish_rate),
            _number(line.drain_s),
            _number(line.work_gflops),
            _number(line.work_s),
        )
    return lags


def _proven_view(status: SystemStatus) -> Iterator[Table]:
    """Yield what live nodes have proven by pool and model; nothing if they have proven nothing."""
    found = proofs(status.nodes, status.proven, status.read_at_ms)
    if not found:
        return
    shown = table(
        ("pool", "model", "precision", "tokenizer"), ("nodes", "golden error", "validated")
    )
    for one in found:
        shown.add_row(
            one.pool,
            one.model,
            one.precision or "-",
            (one.tokenizer_digest or "-").removeprefix("sha256:")[:DIGEST_SHOWN],
            str(one.nodes),
            "-" if one.golden_error is None else f"{one.golden_error:.2g}",
            ago(one.validated_age_s),
        )
    yield shown


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "0" if value == 0 else f"{value:,.1f}"


def _is_news(standing: StandingOrder) -> bool:
    """Return whether no other line says it: those of the threshold and of nodes are in force."""
    return standing.about.startswith(POOL) or not standing.in_force


def _order(standing: StandingOrder) -> str:
    said = f"{standing.about.replace('/', ' ', 1)} {standing.order.in_words}"
    return said if standing.in_force else f"{said} (not in force)"


def _lines(status: SystemStatus) -> list[str]:
    age_s = status.control_age_s
    spoke = "has never spoken" if age_s is None else f"spoke {age_s:.1f} s ago"
    freeze = status.freeze
    held = "" if freeze is None else f", frozen by {freeze.who} ({freeze.why})"
    return [
        f"threshold {status.threshold}{held}; mode {status.mode.value}; control plane {spoke}",
        f"undecided {status.undecided}, in retry {status.in_retry}",
        f"dead letters {status.dead_letters_total}, expired {status.expired_total}",
        f"repeated requests {status.duplicates_total}; models revision {status.models_revision}",
        *(_order(order) for order in status.orders if _is_news(order)),
        *(f"node {node.id} ({node.pool}): {node.reason}" for node in status.nodes if node.reason),
    ]
