"""The work of the commands that order something: who says so, whether it is in force."""

from __future__ import annotations

import asyncio
import time

import click

from deploy.cli.author import author
from deploy.cli.called import as_called
from deploy.cli.console import Progress
from deploy.cli.document import print_document
from deploy.orders import give, read_known
from runtime.connection import connection_of
from runtime.settings import Settings
from schemas.control import Snapshot
from schemas.errors import UsageError
from schemas.orders import NODE, POOL, THRESHOLD, Order, Verb
from streams.policy.threshold import CEILING, FLOOR


def order_node(
    settings: Settings, node: str, what: Verb, who: str | None, why: str, *, as_json: bool
) -> None:
    """Order something of a node that has joined."""
    _order_known(settings, NODE + node, _order(what, who, why), as_json=as_json)


def order_pool(
    settings: Settings, pool: str, what: Verb, who: str | None, why: str, *, as_json: bool
) -> None:
    """Order something of a pool that is configured, here and where control runs."""
    settings.pool(pool)  # raises UsageError
    _order_known(settings, POOL + pool, _order(what, who, why), as_json=as_json)


def order_threshold(
    settings: Settings,
    what: Verb,
    who: str | None,
    why: str,
    *,
    value: int | None = None,
    as_json: bool,
) -> None:
    """Order something of the threshold."""
    if value is not None and not FLOOR <= value <= CEILING:
        raise UsageError(f"the threshold goes from {FLOOR} to {CEILING}, not {value}")
    order = _order(what, who, why, value)
    _tell(THRESHOLD, order, asyncio.run(_give(settings, THRESHOLD, order)), as_json=as_json)


def _order_known(settings: Settings, about: str, order: Order, *, as_json: bool) -> None:
    """Give an order on what control knows."""

    async def ordered() -> Snapshot | None:
        (await read_known(connection_of(settings), settings.topics)).check(about)
        return await _give(settings, about, order)

    _tell(about, order, asyncio.run(ordered()), as_json=as_json)


async def _give(settings: Settings, about: str, order: Order) -> Snapshot | None:
    with Progress() as say:
        return await give(connection_of(settings), settings.topics, about, order, say)


def _order(what: Verb, who: str | None, why: str, threshold: int | None = None) -> Order:
    if what not in {Verb.RESUME, Verb.RELEASE} and not why.strip():
        raise UsageError("--why is empty: say in a few words why, for whoever finds it later")
    who, why = author(who, why)
    at_ms = time.time_ns() // 1_000_000
    return Order(what=what, who=who, why=why, at_ms=at_ms, threshold=threshold)


def _tell(about: str, order: Order, obeyed: Snapshot | None, *, as_json: bool) -> None:
    if as_json:
        document = {
            "about": about,
            **order.model_dump(mode="json"),
            "in_force": obeyed is not None,
            "snapshot": None if obeyed is None else [obeyed.generation, obeyed.number],
        }
        print_document(document)
        return
    said = f"{about.replace('/', ' ', 1)} {order.in_words}"
    if obeyed is not None:
        click.echo(f"{said}; in force (snapshot {obeyed.generation}/{obeyed.number})")
    else:
        late = "written, but no control worker has obeyed it yet: one will as soon as it runs"
        click.echo(as_called(f"{said}; {late} (`overspill control`)"))
