"""`overspill top`: what control's page shows, in a terminal."""

from __future__ import annotations

import click

from deploy.cli.help import example

PAGE_PORT = 7077
"""Where `overspill up` shows the page, if that port is free."""


@click.command(
    epilog=example(
        "overspill top", "overspill top --url http://127.0.0.1:9102", "overspill top --once"
    )
)
@click.option(
    "--url",
    default=f"http://127.0.0.1:{PAGE_PORT}",
    show_default=True,
    help="Where a control worker serves its page: its --web-port.",
)
@click.option("--once", is_flag=True, help="Print it once and end.")
def top(*, url: str, once: bool) -> None:
    """Show the whole system on one screen, anew every second, until Ctrl-C.

    Pools with their queues and the threshold, why requests went where, nodes, cost, objectives and
    what is wrong, in plain words. It asks a control worker; `overspill status` counts for itself.
    """
    import asyncio

    from deploy.cli.interrupts import run_until_stopped
    from deploy.cli.top_live import print_once, show_live

    if once:
        asyncio.run(print_once(url))
    else:
        run_until_stopped(show_live(url))
