"""`overspill status`: the state of the system, counted now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill status",
        "overspill status --lag",
        "overspill status --json",
        "overspill status --watch",
    )
)
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@click.option("--lag", is_flag=True, help="Show the lag of every node and partition too.")
@as_json
@client_flags
def status(settings: Settings, *, watch: bool, lag: bool, as_json: bool) -> None:
    """Show what is unfinished, what is free, and the threshold.

    Counts are records, read from the committed offsets now and exact; idle means that all are 0.
    Oldest and drain are in seconds, arriving and finishing in records a second, work in estimated
    GFLOPs and the seconds that they take; "-" is what nobody can tell now.
    """
    import asyncio

    from deploy.cli.interrupts import run_until_stopped
    from deploy.cli.watch import show_once, watch_it

    if watch:
        run_until_stopped(watch_it(settings, lag=lag, as_json=as_json))
    else:
        asyncio.run(show_once(settings, lag=lag, as_json=as_json))
