"""`overspill redrive`: send dead letters in again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example
from deploy.cli.moment import Moment
from schemas.outcomes import DeadLetterCategory

if TYPE_CHECKING:
    from deploy.redrive import Redriven
    from runtime.settings import Settings

CATEGORIES = [category.value for category in DeadLetterCategory]


@click.command(
    epilog=example(
        "overspill redrive --category internal --dry-run",
        "overspill redrive --category internal --since 2026-11-29T12:00:00Z --limit 100",
    )
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    type=click.Choice(CATEGORIES),
    help="Only dead letters of this kind; may be repeated. Default: all.",
)
@click.option("--since", type=Moment(), help="Only what died then or later; UTC without an offset.")
@click.option("--until", type=Moment(), help="Only what died before.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
@click.option("--dry-run", is_flag=True, help="Count what would be sent, send nothing.")
@as_json
@client_flags
def redrive(
    settings: Settings,
    *,
    categories: tuple[str, ...],
    since: int | None,
    until: int | None,
    limit: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Send dead letters in again, each once: when their cause is mended.

    The router judges each anew, as a first attempt that arrives now. Its dead letter is superseded
    in the same transaction: its end is the one that comes now. A run that was cut off can be run
    again.
    """
    import asyncio

    from deploy.cli.console import Progress
    from deploy.redrive import Chosen, Redrive
    from runtime.connection import connection_of

    chosen = Chosen(frozenset(categories), since, until, limit)
    with Progress() as progress:
        done = asyncio.run(
            Redrive(connection_of(settings), settings.topics).run(
                chosen, dry_run=dry_run, progress=progress
            )
        )
    if as_json:
        _print_json(done, dry_run=dry_run)
    else:
        _print_lines(done, dry_run=dry_run)


def _print_json(done: Redriven, *, dry_run: bool) -> None:
    from schemas.document import to_json

    click.echo(
        to_json(
            {
                "dry_run": dry_run,
                "sent": dict(done.sent),
                "superseded_before": done.before,
                "not_sent": dict(done.kept),
            }
        )
    )


def _print_lines(done: Redriven, *, dry_run: bool) -> None:
    for category, letters in sorted(done.sent.items()):
        click.echo(f"{category}: {letters} {'would be sent' if dry_run else 'sent in again'}")
    if not done.sent:
        click.echo("no dead letter to send")
    if done.before:
        click.echo(f"{done.before} sent in again before")
    for why, letters in sorted(done.kept.items()):
        click.echo(f"{letters} not sent: {why}")
