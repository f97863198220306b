"""How `overspill replay` tells what it found: documents and lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from schemas.document import to_json

if TYPE_CHECKING:
    from streams.replay import Compared, Mismatch, Verified

HOW = (
    "Each choice is judged in the fleet as it was, alike on both sides: by the median run that",
    "nodes had measured for its model and size, and the wait for a slot as the router knew it.",
    "Queues that other choices would have made are not in it (overspill simulate has those).",
    "Intervals: a seeded bootstrap over stretches of consecutive decisions.",
)


def verified_document(found: Verified) -> dict[str, Any]:
    """Return what a replay by the same policy found."""
    return {
        "records": found.records,
        "routers": found.routers,
        "decisions": found.decisions,
        "same": found.same,
        "skipped": dict(found.skipped),
        "first_mismatch": None if found.first is None else _mismatch(found.first),
    }


def compared_document(found: Compared) -> dict[str, Any]:
    """Return what a replay by another policy, threshold or price table found."""
    sums = found.sums
    return {
        "decisions": found.decisions,
        "otherwise": found.otherwise,
        "moves": [
            {"from": before, "to": after, "decisions": count}
            for (before, after), count in sorted(found.moves.items())
        ],
        "cost": {
            "recorded": sums.before,
            "recorded_at_these_prices": sums.before_at,
            "replayed": sums.after,
            "change": found.cost._asdict(),
        },
        "objectives": {
            "decisions": sums.bound,
            "met_recorded": sums.met_before,
            "met_replayed": sums.met_after,
            "change": found.attainment._asdict(),
        },
        "skipped": dict(found.skipped),
        "estimated_by": " ".join(HOW),
    }


def print_verified(found: Verified) -> None:
    """Print whether all decisions came out the same, and where the first did not."""
    if not found.decisions and not found.skipped:
        click.echo("there is no decision to make again")
        return
    routers = "1 router" if found.routers == 1 else f"{found.routers} routers"
    click.echo(
        f"{found.same:,} of {found.decisions:,} decisions came out the same "
        f"({found.records:,} records of {routers})"
    )
    _print_skipped(found.skipped)
    if found.first is None:
        return
    where = found.first
    topic = ("requests", "retry")[where.source]
    click.echo(
        f"first mismatch: {where.id}, {topic} {where.partition} offset {where.offset}, "
        f"router {where.router} seq {where.sequence}, now {where.now_ms}"
    )
    for name in where.recorded._fields:
        before, after = getattr(where.recorded, name), getattr(where.replayed, name)
        mark = "  " if before == after else "* "
        click.echo(f"  {mark}{name}: recorded {before!r}, replayed {after!r}")
    click.echo(f"  features: {to_json(msgspec.to_builtins(where.features)).decode()}")


def print_compared(found: Compared) -> None:
    """Print what would change, and how it was estimated."""
    sums = found.sums
    share = found.otherwise / found.decisions if found.decisions else 0.0
    click.echo(f"{found.decisions:,} decisions, {found.otherwise:,} otherwise ({share:.1%})")
    for (before, after), count in sorted(found.moves.items(), key=lambda move: -move[1]):
        click.echo(f"  {before} -> {after}: {count:,}")
    prices = "" if sums.before == sums.before_at else f" (at the old prices {sums.before:,.4g})"
    low, high = found.cost.low, found.cost.high
    click.echo(
        f"cost: {sums.before_at:,.4g}{prices} -> {sums.after:,.4g} gpu slot-seconds, "
        f"{found.cost.estimate:+.2%}, 95 % interval {low:+.2%} to {high:+.2%}"
    )
    if sums.bound:
        low, high = found.attainment.low * 100, found.attainment.high * 100
        click.echo(
            f"objectives met: {sums.met_before / sums.bound:.2%} -> "
            f"{sums.met_after / sums.bound:.2%}, {found.attainment.estimate * 100:+.2f} points, "
            f"95 % interval {low:+.2f} to {high:+.2f}"
        )
    _print_skipped(found.skipped)
    for line in HOW:
        click.echo(line)


def _print_skipped(skipped: Mapping[str, int]) -> None:
    for why, count in sorted(skipped.items()):
        click.echo(f"  {count:,} not replayed: {why}")


def _mismatch(found: Mismatch) -> dict[str, Any]:
    document = found._asdict()
    document["recorded"] = found.recorded._asdict()
    document["replayed"] = found.replayed._asdict()
    document["features"] = msgspec.to_builtins(found.features)
    return document
