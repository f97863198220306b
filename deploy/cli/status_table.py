"""The status as a table."""

from __future__ import annotations

import asyncio

import click
import orjson
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy.connection import connection_of
from runtime.settings import Settings
from streams.status import SystemStatus, read_status, status_json

WATCH_S = 1.0


async def show_once(settings: Settings, *, as_json: bool) -> None:
    """Read and print the status once."""
    status = await read_status(settings, connection_of(settings))
    if as_json:
        click.echo(orjson.dumps(status_json(status)))
    else:
        Console().print(status_view(status))


async def watch_it(settings: Settings, *, as_json: bool) -> None:
    """Print the status every second: in place on a terminal, a JSON line each with `as_json`."""
    if as_json:
        while True:
            await show_once(settings, as_json=True)
            await asyncio.sleep(WATCH_S)
    with Live(auto_refresh=False) as live:
        while True:
            status = await read_status(settings, connection_of(settings))
            live.update(status_view(status), refresh=True)
            await asyncio.sleep(WATCH_S)


def status_view(status: SystemStatus) -> RenderableType:
    """Return the status for a terminal."""
    pools = Table(box=None, pad_edge=False)
    pools.add_column("pool")
    for heading in (
        "unfinished",
        "queue depth",
        "free slots",
        "nodes",
        "avg ms",
        "routed",
        "finished",
    ):
        pools.add_column(heading, justify="right")
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
    return Group(pools, Text(), *(Text(line) for line in _lines(status)))


def _lines(status: SystemStatus) -> list[str]:
    age_s = status.control_age_s
    spoke = "has never spoken" if age_s is None else f"spoke {age_s:.1f} s ago"
    freeze = status.freeze
    held = "" if freeze is None else f", frozen by {freeze.who} ({freeze.why})"
    return [
        f"threshold {status.threshold}{held}; mode {status.mode.value}; control plane {spoke}",
        f"undecided {status.undecided}, in retry {status.in_retry}",
        f"dead letters {status.dead_letters_total}, expired {status.expired_total}",
        f"repeated requests {status.duplicates_total}",
        *(f"node {node.id} ({node.pool}): {node.reason}" for node in status.nodes if node.reason),
    ]
