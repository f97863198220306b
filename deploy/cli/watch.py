"""Read the status once, or again and again, and print it.

In place on a terminal, one below the other anywhere else, as JSON lines if asked.
"""

from __future__ import annotations

import asyncio
import sys

import click

from deploy.cli.document import print_document
from runtime.connection import connection_of
from runtime.settings import Settings
from streams.status import read_status, status_json

WATCH_S = 1.0


async def show_once(settings: Settings, *, lag: bool, as_json: bool) -> None:
    """Read and print the status once."""
    status = await read_status(settings, connection_of(settings))
    if as_json:
        print_document(status_json(status, lag=lag))
        return
    # Only now: a script that asks for JSON need not wait until tables can be drawn.
    from deploy.cli.status_table import status_view
    from deploy.cli.tables import console

    console().print(status_view(status, lag=lag))


async def watch_it(settings: Settings, *, lag: bool, as_json: bool) -> None:
    """Print the status every second until cancelled."""
    if sys.stdout.isatty() and not as_json:
        await _watch_in_place(settings, lag=lag)
    while True:
        await show_once(settings, lag=lag, as_json=as_json)
        sys.stdout.flush()
        await asyncio.sleep(WATCH_S)
        if not as_json:
            click.echo()


async def _watch_in_place(settings: Settings, *, lag: bool) -> None:
    from rich.live import Live

    from deploy.cli.status_table import status_view

    with Live(auto_refresh=False) as live:
        while True:
            status = await read_status(settings, connection_of(settings))
            live.update(status_view(status, lag=lag), refresh=True)
            await asyncio.sleep(WATCH_S)
