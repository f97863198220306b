"""`overspill cost`: what requests have cost, by tenant, model, pool and day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example
from deploy.cli.moment import Moment

if TYPE_CHECKING:
    from deploy.costs import Ledger
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill cost", "overspill cost --by tenant,day --since 2026-11-01T00:00:00Z --json"
    )
)
@click.option(
    "--by",
    default="tenant,model,pool,day",
    show_default=True,
    metavar="NAME,...",
    help="What to add up by: some of tenant, model, pool, day.",
)
@click.option("--since", type=Moment(), help="Only what ended then or later; UTC without offset.")
@as_json
@client_flags
def cost(settings: Settings, *, by: str, since: int | None, as_json: bool) -> None:
    """Add up what requests have cost, from the results that the topic still holds.

    Cost is the pool's coefficient x seconds in a slot, in seconds of a gpu slot, failed runs
    included. Days are UTC, and those of the result. It only reads.
    """
    import asyncio

    from deploy.costs import DIMENSIONS, read_costs
    from runtime.connection import connection_of
    from schemas.errors import UsageError

    asked = set(filter(None, by.split(",")))
    if not asked or not asked <= set(DIMENSIONS):
        raise UsageError(f"--by {by}: name some of {', '.join(DIMENSIONS)}")
    named = tuple(name for name in DIMENSIONS if name in asked)
    with Progress() as say:
        ledger = asyncio.run(
            read_costs(connection_of(settings), settings.topics.results, named, since, say)
        )
    if as_json:
        _print_json(ledger, named, since)
    else:
        _print_table(ledger, named)


def _print_json(ledger: Ledger, named: tuple[str, ...], since: int | None) -> None:
    total = ledger.total
    print_document(
        {
            "by": named,
            "since_ms": since,
            "lines": [
                {
                    **dict(zip(named, line, strict=True)),
                    "requests": spent.requests,
                    "cost": spent.cost,
                }
                for line, spent in sorted(ledger.lines.items())
            ],
            "total": {"requests": total.requests, "cost": total.cost},
        }
    )


def _print_table(ledger: Ledger, named: tuple[str, ...]) -> None:
    from deploy.cli.tables import console, table

    shown = table(named, ("requests", "cost"))
    for line, spent in sorted(ledger.lines.items()):
        shown.add_row(
            *(value or "-" for value in line), f"{spent.requests:,}", f"{spent.cost:,.3f}"
        )
    if ledger.lines:
        console().print(shown)
    total = ledger.total
    click.echo(f"{total.requests:,} requests, {total.cost:,.3f} gpu slot-seconds")
