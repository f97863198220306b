"""`overspill topics`: make and grow the topics, compare them, and say who needs which rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example
from schemas.roles import WHAT_FOR, Role

if TYPE_CHECKING:
    from runtime.settings import Settings
    from schemas.topics import Topic

_partitions = click.option(
    "--partitions",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Of requests and pools; 32 suits production.",
)


@click.group()
def topics() -> None:
    """Create the topics, add partitions, or check that all is as declared."""


@topics.command(epilog=example("overspill topics create --partitions 32 --replicas 3"))
@_partitions
@click.option(
    "--replicas", type=click.IntRange(1, 10), default=1, show_default=True, help="Of each topic."
)
@as_json
@client_flags
def create(settings: Settings, partitions: int, replicas: int, *, as_json: bool) -> None:
    """Create the topics that are missing; those that exist are left as they are."""
    import asyncio

    from runtime.connection import connection_of
    from runtime.kafka.topics import create_topics

    declared = _declared(settings, partitions)
    created = asyncio.run(create_topics(connection_of(settings), declared, replicas=replicas))
    if as_json:
        print_document({"created": list(created), "existing": len(declared) - len(created)})
        return
    for name in created:
        click.echo(f"created {name}")
    click.echo(f"{len(created)} created, {len(declared) - len(created)} existed")


@topics.command(epilog=example("overspill topics grow --partitions 64"))
@_partitions
@as_json
@client_flags
def grow(settings: Settings, partitions: int, *, as_json: bool) -> None:
    """Add the partitions that topics lack, in the right order, while everything runs.

    Routers and nodes use them within seconds. Repeats and conversations are known per partition:
    for ten minutes a repeat may meet a partition that has not seen the first.
    """
    import asyncio

    from runtime.connection import connection_of
    from runtime.kafka.topics import grow_topics

    declared = _declared(settings, partitions)
    grown = asyncio.run(grow_topics(connection_of(settings), declared))
    if as_json:
        print_document({"grown": list(grown)})
        return
    for name in grown:
        click.echo(f"grown {name}")
    click.echo(f"{len(grown)} grown, {len(declared) - len(grown)} had their partitions")


@topics.command(epilog=example("overspill topics check --partitions 32"))
@_partitions
@as_json
@client_flags
def check(settings: Settings, partitions: int, *, as_json: bool) -> None:
    """Compare every declared property of every topic; end with 1 at the first that differs."""
    import asyncio

    from runtime.connection import connection_of
    from runtime.kafka.topics import check_topics

    declared = _declared(settings, partitions)
    asyncio.run(check_topics(connection_of(settings), declared))
    if as_json:
        print_document({"checked": len(declared), "differ": 0})
        return
    click.echo(f"all {len(declared)} topics are as declared")


@topics.command(epilog=example("overspill topics acl --role router --principal User:CN=router"))
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="; ".join(f"{role.value}: {what}" for role, what in WHAT_FOR.items()) + ".",
)
@click.option("--principal", metavar="USER", help="Who gets them; default: User: and the role.")
@click.option(
    "--pool",
    "pools",
    metavar="NAME",
    multiple=True,
    help="Of an executor, what it works for; may be repeated; default: every pool.",
)
@as_json
@client_flags
def acl(
    settings: Settings, role: str, principal: str | None, pools: tuple[str, ...], *, as_json: bool
) -> None:
    """Print the least rights that a role needs, as commands of Kafka's own tool.

    No broker is asked. Where no authorizer is on, whoever connects may do everything.
    """
    from deploy.rights import command, document
    from schemas.access import grants

    chosen = tuple(settings.pool(name) for name in pools) or settings.pools
    given = grants(Role(role), settings.topics, chosen)
    if as_json:
        print_document({"role": role, "grants": [document(grant) for grant in given]})
        return
    for grant in given:
        click.echo(command(grant, settings.kafka.bootstrap_servers, principal or f"User:{role}"))


def _declared(settings: Settings, partitions: int) -> tuple[Topic, ...]:
    from runtime.kafka.topics import refuse_oversize
    from schemas.topics import catalogue

    refuse_oversize(settings.pools, partitions)
    return catalogue(settings.topics, settings.pools, partitions)
