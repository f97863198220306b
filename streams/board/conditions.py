"""What is not as it should be, in plain words: what it means, and what to do about it.

Pure. A condition has the name of the alert that says the same, if there is one, so that page,
pager and runbook speak of one thing. The worst comes first; with nothing to say, all is well.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.outcomes import Mode
from schemas.slo import PAGE_BURN, TICKET_BURN, burn_rate
from streams.board.board import Board
from streams.board.condition import Condition, many
from streams.board.fleet_conditions import NODES_NAMED, named, of_fleet, of_nodes, of_pool
from streams.board.seen import Seen
from streams.board.tally import Counts

_ORDER = {"bad": 0, "warn": 1, "note": 2, "good": 3}

LATELY_MS = 300_000
"""Counts of the last five minutes tell how things go now."""
ROUTER_HEARD_S = 30.0
"""The mode of a router that decided longer ago says nothing."""
UNDECIDED_S = 10.0
"""Requests wait and no router has decided for this long: routers commit every 50 ms."""
DEAD_LETTERS_MANY = 0.05
ERRORS_MANY = 0.05
"""Of what ended lately."""


def conditions(board: Board, now_ms: int, now_s: float) -> list[Condition]:
    """Return what there is to say, the worst first; never nothing."""
    seen = board.seen(now_s)
    if board.kafka_away_s is not None:
        return [_kafka_away(now_s - board.kafka_away_s)]
    if seen is None:
        return [_not_speaking(board.trouble())]
    before = board.history.before(now_ms, LATELY_MS)
    counts = board.tally.counts
    lately = counts.copy() if before is None else counts.since(before.counts)
    found = [
        *_routers(board, seen, now_s),
        *(c for name, pool in seen.pools.items() for c in of_pool(name, pool, seen)),
        *(c for name, pool in seen.pools.items() for c in of_nodes(name, pool, seen)),
        *of_fleet(seen),
        *_ends(lately),
        *_orders(seen),
    ]
    return sorted(found, key=lambda one: _ORDER[one.level]) or [
        Condition("good", "", "All is well", "Requests are routed by cost and objective.")
    ]


def _kafka_away(away_s: float) -> Condition:
    return Condition(
        "bad",
        "OverspillKafkaAway",
        "Kafka does not answer",
        "No broker answers this worker. Nothing is routed and no result is written meanwhile. "
        "Nothing is lost: all goes on by itself when Kafka is back.",
        "Look at the brokers: do they run, and can this host reach them?",
        for_s=away_s,
    )


def _not_speaking(trouble: str | None) -> Condition:
    if trouble is None:
        return Condition(
            "note",
            "",
            "This worker stands by",
            "Another control worker speaks; its page has the numbers. If it dies, this one speaks "
            "within ten seconds.",
        )
    return Condition(
        "bad",
        "OverspillControlSilent",
        "Control does not speak",
        f"This worker says: {trouble}. Routers go on with what they last heard (stale); after 30 s "
        "they decide without knowing the fleet (blind).",
        "If it lasts longer than half a minute: this worker's log, and whether Kafka is well.",
    )


def _routers(board: Board, seen: Seen, now_s: float) -> Iterator[Condition]:
    heard = [one for one in board.tally.routers.values() if now_s - one.at_s < ROUTER_HEARD_S]
    newest_s = min((now_s - one.at_s for one in board.tally.routers.values()), default=None)
    undecided = seen.undecided or 0
    if undecided and (newest_s is None or newest_s > UNDECIDED_S):
        yield Condition(
            "bad",
            "OverspillRoutersDead",
            "Requests wait, and no router decides",
            f"{undecided:,} requests have arrived that no router has taken.",
            "Start routers, or see why they are not ready: each says it at /readyz.",
        )
    blind = sum(one.mode == Mode.BLIND for one in heard)
    stale = sum(one.mode == Mode.STALE for one in heard)
    if blind:
        yield Condition(
            "bad",
            "OverspillSignalsStale",
            f"{many(blind, 'router decides', 'routers decide')} blind",
            "For 30 s or more nothing was heard of the fleet: realtime work goes to the GPU, the "
            "rest to the GPU or the cheapest pool by key. Cost is not optimised, orders are not "
            "obeyed.",
            "Control speaks here: look at those routers' logs and their way to Kafka.",
            "routers blind",
        )
    if stale:
        yield Condition(
            "warn",
            "OverspillSignalsStale",
            f"{many(stale, 'router is', 'routers are')} stale",
            "For over 2 s nothing was heard of the fleet: the last known numbers are used, the "
            "threshold stands still.",
            "Passes within seconds after control was restarted; else look at the way to Kafka.",
            "routers stale",
        )


def _ends(lately: Counts) -> Iterator[Condition]:
    dead, decided = sum(lately.dead_letters.values()), sum(lately.decided.values())
    if dead:
        yield Condition(
            "bad" if dead > DEAD_LETTERS_MANY * (dead + decided) else "warn",
            "OverspillDeadLettersRising",
            f"{many(dead, 'record was', 'records were')} no request",
            f"In the last 5 minutes: {_listed(lately.dead_letters.most_common())}. They are kept, "
            "with the reason, in the topic dead-letter; other requests are not held up.",
            "Find the producer that sends them; once mended: `overspill redrive --dry-run`",
            "dead letters",
        )
    errors, ended = sum(lately.errors.values()), sum(lately.results.values())
    if errors:
        yield Condition(
            "bad" if errors > ERRORS_MANY * ended else "warn",
            "OverspillErrorsHigh",
            f"{many(errors, 'request', 'requests')} ended with an error",
            f"In the last 5 minutes: {_listed(lately.errors.most_common())}.",
            "backend-error, unavailable, overloaded: look at the engines. bad-request, "
            "model-not-found and the like: tell the callers.",
            "errors",
        )
    lost = lately.canaries_lost
    if lost:
        yield Condition(
            "bad",
            "OverspillCanaryLost",
            f"{many(sum(lost.values()), 'canary was', 'canaries were')} lost",
            f"A request of control's own went in and no result came out: "
            f"{_listed(lost.most_common())}.",
            "A pool that is down or stands still is named here too; else look at dead letters.",
            "canaries",
        )
    burn = burn_rate(lately.met, lately.missed)
    if burn is not None and burn > TICKET_BURN:
        yield Condition(
            "bad" if burn >= PAGE_BURN else "warn",
            "OverspillSLOBurnFast" if burn >= PAGE_BURN else "OverspillSLOBurnSlow",
            "Objectives are missed",
            f"In the last 5 minutes {lately.missed:,} of {lately.met + lately.missed:,} requests "
            f"with an objective missed it: {burn:.1f} times what the error budget allows.",
            "Nodes down, a slow node or a full fleet say why; else compare waiting and running "
            "times by pool.",
        )


def _orders(seen: Seen) -> Iterator[Condition]:
    freeze = seen.snapshot.freeze
    if freeze is not None:
        yield Condition(
            "note",
            "",
            f"The threshold is held at {seen.snapshot.threshold}",
            f"By {freeze.who}: {freeze.why}.",
            "When it is over: `overspill threshold release`",
        )
    draining = [node for node in seen.snapshot.nodes if node.live and node.draining]
    if len(draining) > NODES_NAMED:
        yield Condition(
            "note",
            "",
            f"{len(draining)} nodes drain",
            f"Nothing new is sent to them: {named(draining)}.",
            "When it is over, for each: `overspill nodes resume NODE`",
            "nodes drain",
        )
        return
    for node in draining:
        yield Condition(
            "note",
            "",
            f"Node {node.id} ({node.pool}) drains",
            f"{node.reason or 'By its own word'}. Nothing new is sent to it.",
            f"When it is over: `overspill nodes resume {node.id}`",
        )


def _listed(most: list[tuple[str, int]]) -> str:
    return ", ".join(f"{category} {count:,}" for category, count in most)
