"""What the demo shows while it runs: a table that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from deploy.cli.reasons import in_words
from deploy.client.terminal import Terminal
from deploy.local.demo.account import NOWHERE, Account, Way
from deploy.local.demo.run import Viewer
from deploy.local.demo.traffic import Kind
from schemas.control import Snapshot

LINE_EVERY_S = 1.0
WAYS_SHOWN = 3
"""Ways of one kind in its row; the last screen has all."""


@contextmanager
def live_viewer() -> Iterator[Viewer]:
    """Yield the viewer that suits standard error."""
    if not sys.stderr.isatty():
        yield PlainViewer()
        return
    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
        yield TableViewer(live)


class TableViewer:
    """A table with a row for each kind of request."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def ended(self, kind: Kind, way: Way, terminal: Terminal) -> None:
        """Wait for the next drawing."""

    def stands(self, account: Account, snapshot: Snapshot | None, undecided: int) -> None:
        """Draw the table anew."""
        table = Table(title=standing(account, snapshot, undecided), title_justify="left", box=None)
        table.add_column("request")
        table.add_column("sent", justify="right")
        table.add_column("ended", justify="right")
        table.add_column("went where, and why")
        for kind in Kind:
            ways = account.ways.get(kind, Counter())
            table.add_row(
                kind.value,
                str(account.sent[kind]),
                str(sum(ways.values())),
                ", ".join(
                    f"{way.pool} {count} ({way.reason})"
                    for way, count in ways.most_common(WAYS_SHOWN)
                ),
            )
        self._live.update(table)


class PlainViewer:
    """A line for each way that is new, and one a second about how things stand if they changed."""

    def __init__(self) -> None:
        self._seen: set[tuple[Kind, Way, str]] = set()
        self._said_s = time.monotonic()
        self._said = ""

    def ended(self, kind: Kind, way: Way, terminal: Terminal) -> None:
        """Print where this request went if none of its kind went there for that reason before."""
        case = (kind, way, terminal.category)
        if case in self._seen:
            return
        self._seen.add(case)
        place = "" if way.pool == NOWHERE else f" -> {way.pool}"
        reason, why = way.reason, in_words(way.reason)
        if terminal.result is None:
            reason, why = f"{reason} {terminal.category}", terminal.message
        click.echo(f"  {kind.value}{place}: {reason} ({why})", err=True)

    def stands(self, account: Account, snapshot: Snapshot | None, undecided: int) -> None:
        """Print how things stand, once a second at most, and nothing that was said just now."""
        now_s = time.monotonic()
        if now_s - self._said_s >= LINE_EVERY_S and account.sent:
            self._said_s = now_s
            line = standing(account, snapshot, undecided)
            if line != self._said:
                self._said = line
                click.echo(line, err=True)


def standing(account: Account, snapshot: Snapshot | None, undecided: int) -> str:
    """Return one line about how things stand."""
    sent = sum(account.sent.values())
    pools = ", ".join(f"{pool} {count}" for pool, count in sorted(account.ran.items()))
    line = f"{sent} sent, {account.ended} ended; ran: {pools or 'none yet'}"
    if snapshot is None:
        return line
    unfinished = ", ".join(
        f"{name} {sum(partition.unfinished for partition in pool.partitions)}"
        for name, pool in sorted(snapshot.pools.items())
    )
    return (
        f"{line}; undecided: {undecided}; unfinished: {unfinished}; threshold {snapshot.threshold}"
    )
