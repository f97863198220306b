"""`overspill nodes`: which there are, and an operator's orders to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags, order_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings

_node = click.argument("node", metavar="NODE")


@click.group()
def nodes() -> None:
    """Show the nodes, drain one, or let it work again."""


@nodes.command("list", epilog=example("overspill nodes list", "overspill nodes list --json"))
@as_json
@client_flags
def list_(settings: Settings, *, as_json: bool) -> None:
    """Show every node: its state, its load, and who drained it and why.

    A drained node with nothing unfinished and no busy slot can be stopped.
    """
    from deploy.cli.fleet_lists import list_nodes

    list_nodes(settings, as_json=as_json)


@nodes.command(
    epilog=example('overspill nodes drain gpu-1 --why "new driver"', "overspill nodes list")
)
@_node
@order_flags(reason_needed=True)
@as_json
@client_flags
def drain(settings: Settings, node: str, who: str | None, why: str, *, as_json: bool) -> None:
    """Route nothing new to NODE; what it has, it finishes.

    The order stands until `overspill nodes resume`, also while the node is away. A pool whose live
    nodes are all drained is down. Ends with 0 once the order is written.
    """
    from deploy.cli.ordering import order_node
    from schemas.orders import Verb

    order_node(settings, node, Verb.DRAIN, who, why, as_json=as_json)


@nodes.command(epilog=example("overspill nodes resume gpu-1"))
@_node
@order_flags(reason_needed=False)
@as_json
@client_flags
def resume(settings: Settings, node: str, who: str | None, why: str, *, as_json: bool) -> None:
    """Route to NODE again."""
    from deploy.cli.ordering import order_node
    from schemas.orders import Verb

    order_node(settings, node, Verb.RESUME, who, why, as_json=as_json)
