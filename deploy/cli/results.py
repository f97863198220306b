"""`overspill results`: read terminal results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill results --follow", "overspill results --from-beginning --json | jq .status"
    )
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option("--from-beginning", is_flag=True, help="All that the topic holds, not the last ten.")
@as_json
@client_flags
def results(settings: Settings, *, follow: bool, from_beginning: bool, as_json: bool) -> None:
    """Print results: the last ten, all of them, or those to come."""
    from deploy.cli.interrupts import run_until_stopped
    from deploy.cli.reading import print_results

    run_until_stopped(
        print_results(settings, follow=follow, from_beginning=from_beginning, as_json=as_json)
    )
