"""`overspill router`: one process that routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import role_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill router --bootstrap-servers kafka:9092 --web-port 9101",
    )
)
@role_flags
def router(settings: Settings) -> None:
    """Run a router: it decides where each request goes.

    Run as many as you like: they share the partitions of `requests`. SIGTERM ends it in order.
    """
    from deploy.cli.roles import serve
    from streams.router.service import open_router

    serve("router", settings, open_router)
