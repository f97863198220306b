"""`overspill pools`: how they stand, and an operator's orders to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags, order_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings

_pool = click.argument("pool", metavar="POOL")


@click.group()
def pools() -> None:
    """Show the pools, pause one, or let it work again."""


@pools.command("list", epilog=example("overspill pools list", "overspill pools list --json"))
@as_json
@client_flags
def list_(settings: Settings, *, as_json: bool) -> None:
    """Show every pool: its state, its load, and who paused it and why."""
    from deploy.cli.fleet_lists import list_pools

    list_pools(settings, as_json=as_json)


@pools.command(epilog=example('overspill pools pause cpu --why "rack maintenance"'))
@_pool
@order_flags(reason_needed=True)
@as_json
@client_flags
def pause(settings: Settings, pool: str, who: str | None, why: str, *, as_json: bool) -> None:
    """Take POOL for down: work goes elsewhere, by the policy.

    Its nodes finish what they have. Work that no other pool may do is still routed to it and runs
    there (realtime work to gpu, pinned requests); stop its nodes and it waits. The order stands
    until `overspill pools resume`. Ends with 0 once it is written.
    """
    from deploy.cli.ordering import order_pool
    from schemas.orders import Verb

    order_pool(settings, pool, Verb.PAUSE, who, why, as_json=as_json)


@pools.command(epilog=example("overspill pools resume cpu"))
@_pool
@order_flags(reason_needed=False)
@as_json
@client_flags
def resume(settings: Settings, pool: str, who: str | None, why: str, *, as_json: bool) -> None:
    """Route to POOL again."""
    from deploy.cli.ordering import order_pool
    from schemas.orders import Verb

    order_pool(settings, pool, Verb.RESUME, who, why, as_json=as_json)
