"""`overspill control`: one worker of the control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import role_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill control --bootstrap-servers kafka:9092 --web-port 9102",
    )
)
@role_flags
def control(settings: Settings) -> None:
    """Run a control plane worker: it counts lag, steps the threshold and tells the routers.

    Run one or two: the second stands by. SIGTERM ends it in order. At --web-port it serves a page
    that shows the whole system; `overspill top` shows the same in a terminal.
    """
    from deploy.cli.roles import serve
    from streams.board.pages import board_routes
    from streams.control.service import open_control

    serve("control", settings, open_control, lambda worker: board_routes(worker.board))
