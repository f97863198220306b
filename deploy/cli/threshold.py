"""`overspill threshold`: where it is, and an operator's hold on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import as_json, client_flags, order_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.group()
def threshold() -> None:
    """Show the overflow threshold, hold it, or let it move again."""


@threshold.command(epilog=example("overspill threshold show", "overspill threshold show --json"))
@as_json
@client_flags
def show(settings: Settings, *, as_json: bool) -> None:
    """Show the threshold as last published, and who holds it and why."""
    from deploy.cli.fleet_lists import show_threshold

    show_threshold(settings, as_json=as_json)


@threshold.command(epilog=example('overspill threshold freeze --why "load test"'))
@order_flags(reason_needed=True)
@as_json
@client_flags
def freeze(settings: Settings, who: str | None, why: str, *, as_json: bool) -> None:
    """Hold the threshold where it is, until `overspill threshold release`."""
    from deploy.cli.ordering import order_threshold
    from schemas.orders import Verb

    order_threshold(settings, Verb.FREEZE, who, why, as_json=as_json)


@threshold.command("set", epilog=example('overspill threshold set 25 --why "price test"'))
@click.argument("value", metavar="N", type=int)
@order_flags(reason_needed=True)
@as_json
@client_flags
def set_(settings: Settings, value: int, who: str | None, why: str, *, as_json: bool) -> None:
    """Hold the threshold at N (2 to 1000), until `overspill threshold release`."""
    from deploy.cli.ordering import order_threshold
    from schemas.orders import Verb

    order_threshold(settings, Verb.FREEZE, who, why, value=value, as_json=as_json)


@threshold.command(epilog=example("overspill threshold release"))
@order_flags(reason_needed=False)
@as_json
@client_flags
def release(settings: Settings, who: str | None, why: str, *, as_json: bool) -> None:
    """Let the threshold move again, from where it is."""
    from deploy.cli.ordering import order_threshold
    from schemas.orders import Verb

    order_threshold(settings, Verb.RELEASE, who, why, as_json=as_json)
