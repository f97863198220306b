"""`overspill offsets`: where the groups stand, and what to do when nothing tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from deploy.offsets import Accepted, At, Standing
    from runtime.settings import Settings


@click.group()
def offsets() -> None:
    """Show committed offsets, or set those that are lost."""


@offsets.command(epilog=example("overspill offsets show", "overspill offsets show --json"))
@as_json
@client_flags
def show(settings: Settings, *, as_json: bool) -> None:
    """Show where every group stands in each of its partitions."""
    import asyncio

    from deploy.offsets import Offsets
    from runtime.connection import connection_of

    async def read() -> list[Standing]:
        async with Offsets(settings, connection_of(settings)) as known:
            return await known.standings()

    standings = asyncio.run(read())
    if as_json:
        print_document([_document(standing) for standing in standings])
    else:
        _print_table(standings)


@offsets.command(
    epilog=example(
        "overspill offsets accept router --at latest",
        "overspill offsets accept executor.gpu --at earliest",
    )
)
@click.argument("group")
@click.option(
    "--at",
    type=click.Choice(["earliest", "latest"]),
    required=True,
    help="earliest: do again what is still there; latest: skip it.",
)
@as_json
@client_flags
def accept(settings: Settings, group: str, at: At, *, as_json: bool) -> None:
    """Set the lost offsets of GROUP (router, executor.gpu, ...), by your decision.

    Only partitions whose owner says `offsets-lost` are touched: those for which nothing is
    committed and no record tells where to go on. Their owners notice and go on by themselves. Look
    at the data first: with `earliest` requests may get a second result, with `latest` none at all.
    """
    import asyncio

    from deploy.offsets import Offsets
    from runtime.connection import connection_of

    async def set_lost() -> list[Accepted]:
        async with Offsets(settings, connection_of(settings)) as known:
            return await known.accept(group, at)

    accepted = asyncio.run(set_lost())
    if as_json:
        print_document(
            [
                {"topic": tp.topic, "partition": tp.partition, "offset": offset}
                for tp, offset in accepted
            ]
        )
        return
    for tp, offset in accepted:
        click.echo(f"{tp.topic}-{tp.partition} goes on at {offset}")
    if not accepted:
        click.echo(f"nothing to accept: every partition of {group} knows where to go on")


def _document(standing: Standing) -> dict[str, Any]:
    committed = standing.committed
    return {
        "group": standing.group,
        "topic": standing.partition.topic,
        "partition": standing.partition.partition,
        "committed": None if committed is None else committed.offset,
        "begin": standing.begin,
        "end": standing.end,
        "state": standing.state,
    }


def _print_table(standings: list[Standing]) -> None:
    from deploy.cli.tables import console, table

    shown = table(("group", "partition"), ("committed", "log begins", "ends"))
    shown.add_column("state", overflow="fold")
    for said in standings:
        shown.add_row(
            said.group,
            f"{said.partition.topic}-{said.partition.partition}",
            "-" if said.committed is None else str(said.committed.offset),
            str(said.begin),
            str(said.end),
            said.state,
        )
    console().print(shown)
