"""The board as one JSON document: what the page and `overspill top` draw.

Pure. Numbers and names only; nothing of a request's content is in it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from schemas.capability import Capability
from schemas.control import NodeCondition, NodeReport, NodeState
from schemas.reasons import IN_WORDS
from schemas.slo import TARGET, burn_rate
from streams.board.board import Board
from streams.board.condition import Condition
from streams.board.conditions import conditions
from streams.board.seen import PoolSeen, Seen
from streams.board.since import maybe_longer, since_ms
from streams.board.tally import Counts

WINDOW_MS = 600_000
"""Rates, shares and burn are of the last ten minutes, or since this worker began."""
NODES_SHOWN = 100
"""Those in trouble first; a page with more is read by nobody."""


def document(board: Board, now_ms: int, now_s: float) -> dict[str, Any]:
    """Return what there is to show now."""
    seen = board.seen(now_s)
    before = board.history.before(now_ms, WINDOW_MS)
    counts = board.tally.counts
    lately = counts.copy() if before is None else counts.since(before.counts)
    from_ms = board.since_ms if before is None else before.at_ms
    return {
        "at_ms": now_ms,
        "since_ms": board.since_ms,
        "window_s": max(1.0, (now_ms - from_ms) / 1000),
        "conditions": [
            _condition(one, board, now_ms, now_s) for one in conditions(board, now_ms, now_s)
        ],
        "threshold": None if seen is None else seen.snapshot.threshold,
        "undecided": None if seen is None else seen.undecided,
        "pools": [] if seen is None else _pools(board, seen),
        "nodes": [] if seen is None else _nodes(seen)[:NODES_SHOWN],
        "nodes_total": 0 if seen is None else len(seen.snapshot.nodes),
        "decisions": _decisions(counts, lately),
        "results": dict(counts.results),
        "duplicates": counts.duplicates,
        "dead_letters": _categories(counts.dead_letters, lately.dead_letters),
        "errors": _categories(counts.errors, lately.errors),
        "cost": _cost(counts, lately),
        "slo": {
            "target": TARGET,
            "met": counts.met,
            "missed": counts.missed,
            "attained": _share(lately.met, lately.met + lately.missed),
            "burn": burn_rate(lately.met, lately.missed),
        },
    }


def history(board: Board) -> dict[str, Any]:
    """Return the last ten minutes as columns: times in s, the threshold, depths by pool."""
    points = board.history.points
    return {
        "at_s": [point.at_ms / 1000 for point in points],
        "threshold": [point.threshold for point in points],
        "depths": {
            pool.name: [point.depths.get(pool.name) for point in points] for pool in board.pools
        },
    }


def _condition(one: Condition, board: Board, now_ms: int, now_s: float) -> dict[str, Any]:
    return {
        "level": one.level,
        "name": one.name,
        "title": one.title,
        "meaning": one.meaning,
        "remedy": one.remedy,
        "since_ms": since_ms(one, board, now_ms),
        "maybe_longer": maybe_longer(one, board, now_ms, now_s),
    }


def _pools(board: Board, seen: Seen) -> list[dict[str, Any]]:
    return [
        {
            "name": pool.name,
            "price": pool.cost_coefficient,
            "paused": seen.snapshot.pools[pool.name].paused,
            "unfinished": (found := seen.pools[pool.name]).unfinished,
            "queue_depth": found.queue_depth,
            "slots": found.slots,
            "free_slots": found.free_slots,
            "nodes": found.nodes,
            "nodes_known": found.nodes + found.down,
            "oldest_age_s": None if found.line is None else found.line.oldest_age_s,
            "arrival_rate": None if found.line is None else found.line.arrival_rate,
            "finish_rate": None if found.line is None else found.line.finish_rate,
            "drain_s": None if found.line is None else found.line.drain_s,
            "no_drain": _no_drain(found),
        }
        for pool in board.pools
        if pool.name in seen.snapshot.pools
    ]


def _no_drain(pool: PoolSeen) -> str:
    """Return why there is no time in which all would be finished; empty if there is one."""
    if not pool.nodes:
        return "no nodes"
    stands = pool.unfinished and (pool.line is None or pool.line.drain_s is None)
    return "nothing finishes" if stands else ""


def _nodes(seen: Seen) -> list[dict[str, Any]]:
    reports = {report.node: report for report in seen.reports}
    ordered = sorted(
        seen.snapshot.nodes,
        key=lambda node: (node.live and not node.draining, -node.slowness, node.pool, node.id),
    )
    return [_node(node, reports[node.id], seen) for node in ordered if node.id in reports]


def _node(node: NodeState, report: NodeReport, seen: Seen) -> dict[str, Any]:
    line = seen.node_lines.get(node.id)
    return {
        "id": node.id,
        "pool": node.pool,
        "state": _state(node, report),
        "live": node.live,
        "reason": node.reason,
        "slots": node.slots,
        "busy": node.busy,
        "unfinished": None if line is None else line.unfinished,
        "mean_ms": report.latency_mean_ms,
        "p99_ms": report.latency_p99_ms,
        "slowness": node.slowness,
        "models": list(node.models),
        "backend": report.backend,
        "emulated": report.emulated,
        "proven": _proven(report.capabilities),
    }


def _proven(capabilities: tuple[Capability, ...]) -> dict[str, Any] | None:
    """Return the largest golden error of a node's models and the oldest validation."""
    if not capabilities:
        return None
    errors = [one.golden_error for one in capabilities if one.golden_error is not None]
    return {
        "golden_error": max(errors, default=None),
        "validated_at_ms": min(one.validated_at_ms for one in capabilities),
    }


def _state(node: NodeState, report: NodeReport) -> str:
    if not node.live:
        working = report.state in (NodeCondition.READY, NodeCondition.DRAINING)
        return "down" if working else report.state.value
    return "draining" if node.draining else "ready"


def _decisions(counts: Counts, lately: Counts) -> list[dict[str, Any]]:
    return [
        {
            "pool": pool,
            "reason": reason,
            "words": IN_WORDS.get(reason, reason),
            "total": total,
            "lately": lately.decided[pool, reason],
        }
        for (pool, reason), total in counts.decided.most_common()
    ]


def _categories(counts: Counter[str], lately: Counter[str]) -> list[dict[str, Any]]:
    return [
        {"category": category, "total": total, "lately": lately[category]}
        for category, total in counts.most_common()
    ]


def _cost(counts: Counts, lately: Counts) -> dict[str, Any]:
    expected = lately.expected
    return {
        "total": counts.spent,
        "lately": lately.spent,
        "expected_routed": counts.expected.routed,
        "expected_gpu_only": counts.expected.gpu_only,
        # Of what is known of both sides; below 0 where the cheap slots are too slow to save.
        "saved": None if not expected.gpu_only else 1 - expected.routed / expected.gpu_only,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
