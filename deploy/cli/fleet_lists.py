"""The work of `nodes list`, `pools list` and `threshold show`: as published, with who and why."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from deploy.cli.called import as_called
from deploy.cli.document import print_document
from deploy.cli.tables import console, table
from deploy.orders import Known, read_known
from runtime.connection import connection_of
from runtime.settings import Settings
from schemas.control import NodeState, Snapshot
from schemas.orders import NODE, POOL, THRESHOLD
from schemas.pools import Pool
from streams.policy.threshold import START
from streams.status import in_force


def list_nodes(settings: Settings, *, as_json: bool) -> None:
    """Print every node that control knows, and what is drained though it is not there."""
    known = _read(settings)
    document = nodes_document(known)
    if as_json:
        print_document(document)
        return
    shown = table(("node", "pool", "state"), ("slots", "busy", "unfinished", "avg ms"))
    shown.add_column("why", overflow="fold")
    for node in document["nodes"]:
        numbers = (node["slots"], node["busy"], node["unfinished"], round(node["latency_ms"]))
        why = node["reason"] or _unheard(known, NODE + node["id"])
        shown.add_row(node["id"], node["pool"], node["state"], *map(str, numbers), why)
    console().print(shown)
    for order in document["absent"]:
        name, words = order["about"][len(NODE) :], known.book.standing[order["about"]].in_words
        click.echo(f"not there: node {name}, {words}")
    click.echo(_spoke(known))


def list_pools(settings: Settings, *, as_json: bool) -> None:
    """Print every configured pool."""
    known = _read(settings)
    document = pools_document(known, settings.pools)
    if as_json:
        print_document(document)
        return
    columns = ("nodes", "draining", "slots", "unfinished")
    shown = table(("pool", "state"), columns)
    shown.add_column("why", overflow="fold")
    for pool in document["pools"]:
        why = pool["reason"] or _unheard(known, POOL + pool["name"])
        shown.add_row(pool["name"], pool["state"], *(str(pool[name]) for name in columns), why)
    console().print(shown)
    click.echo(_spoke(known))


def show_threshold(settings: Settings, *, as_json: bool) -> None:
    """Print the threshold."""
    known = _read(settings)
    document = threshold_document(known)
    if as_json:
        print_document(document)
        return
    freeze = document["freeze"]
    held = f"frozen by {freeze['who']}: {freeze['why']}" if freeze else "moving"
    click.echo(f"threshold {document['threshold']}, {held}")
    if unheard := _unheard(known, THRESHOLD):
        click.echo(unheard)
    click.echo(_spoke(known))


def nodes_document(known: Known) -> dict[str, Any]:
    """Return what `nodes list --json` prints."""
    snapshot = known.snapshot
    states = () if snapshot is None else snapshot.nodes
    joined = {NODE + node.id for node in states}
    return {
        "control_age_s": known.age_s,
        "nodes": [
            {
                **node.model_dump(),
                "state": _state(node),
                "unfinished": _unfinished(snapshot, node),
                "order": _standing(known, NODE + node.id),
            }
            for node in sorted(states, key=lambda node: (node.pool, node.id))
        ],
        "absent": [
            _standing(known, about)
            for about in sorted(known.book.standing)
            if about.startswith(NODE) and about not in joined
        ],
    }


def pools_document(known: Known, pools: tuple[Pool, ...]) -> dict[str, Any]:
    """Return what `pools list --json` prints."""
    return {
        "control_age_s": known.age_s,
        "pools": [
            {**_pool(known.snapshot, pool), "order": _standing(known, POOL + pool.name)}
            for pool in pools
        ],
    }


def threshold_document(known: Known) -> dict[str, Any]:
    """Return what `threshold show --json` prints."""
    snapshot = known.snapshot
    freeze = None if snapshot is None else snapshot.freeze
    return {
        "control_age_s": known.age_s,
        "threshold": START if snapshot is None else snapshot.threshold,
        "freeze": None if freeze is None else freeze.model_dump(),
        "order": _standing(known, THRESHOLD),
    }


def _read(settings: Settings) -> Known:
    return asyncio.run(read_known(connection_of(settings), settings.topics))


def _state(node: NodeState) -> str:
    if not node.live:
        return "down"
    return "draining" if node.draining else "live"


def _unfinished(snapshot: Snapshot | None, node: NodeState) -> int:
    if snapshot is None or node.pool not in snapshot.pools:
        return 0
    counts = snapshot.pools[node.pool].partitions
    return sum(counts[number].unfinished for number in node.partitions if number < len(counts))


def _pool(snapshot: Snapshot | None, pool: Pool) -> dict[str, Any]:
    published = None if snapshot is None else snapshot.pools.get(pool.name)
    nodes = () if snapshot is None else snapshot.nodes
    live = [node for node in nodes if node.live and node.pool == pool.name]
    draining = sum(node.draining for node in live)
    if published is not None and published.paused:
        state, reason = "paused", published.reason
    elif len(live) == draining:
        state, reason = "down", "every live node is draining" if live else "no live node"
    else:
        state, reason = "open", ""
    return {
        "name": pool.name,
        "state": state,
        "nodes": len(live),
        "draining": draining,
        "slots": sum(node.slots for node in live),
        "unfinished": sum(p.unfinished for p in published.partitions) if published else 0,
        "reason": reason,
    }


def _standing(known: Known, about: str) -> dict[str, Any] | None:
    """Return the order that stands there, as JSON has it."""
    order = known.book.standing.get(about)
    if order is None:
        return None
    obeyed = in_force(known.snapshot, about, order)
    return {"about": about, **order.model_dump(mode="json"), "in_force": obeyed}


def _unheard(known: Known, about: str) -> str:
    """Return the order that stands there and that no snapshot obeys, in words."""
    order = known.book.standing.get(about)
    if order is None or in_force(known.snapshot, about, order):
        return ""
    return f"{order.in_words} (not in force: no control worker has read it)"


def _spoke(known: Known) -> str:
    if known.age_s is None:
        return as_called("No control worker has ever published: `overspill control` runs one.")
    return f"As published {known.age_s:.1f} s ago."
