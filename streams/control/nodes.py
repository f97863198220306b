"""The node table's meaning: which nodes live, and which of them has each partition.

Pure. A report says what a node is; that it lives is judged here, by when reports arrived on this
worker's own clock: the clocks of nodes are never compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from schemas.control import NODE_TTL_S, NodeCondition, NodeReport, NodeState
from schemas.orders import NODE, Order

WORKING = frozenset({NodeCondition.READY, NodeCondition.DRAINING})
"""In which a node takes what is routed to it; in any other it counts as down, with its reason."""
FORGET_AFTER_S = 600.0
"""A node silent for this long is removed: its name was a process that no longer exists."""


def node_states(
    reports: Iterable[NodeReport],
    orders: Mapping[str, Order],
    heard: Mapping[str, float],
    now_s: float,
) -> tuple[NodeState, ...]:
    """Return the state of every node, by id.

    Args:
        reports: the last one of each node.
        orders: that stand, by what they are about.
        heard: by node, when its last report arrived, in seconds of a monotonic clock.
        now_s: the time on that clock.
    """
    ordered = sorted(reports, key=lambda report: report.node)
    live = [report for report in ordered if _lives(report, heard, now_s)]
    owners = _owners(live)
    return tuple(
        NodeState(
            id=report.node,
            pool=report.pool,
            live=report in live,
            draining=report.state is NodeCondition.DRAINING or NODE + report.node in orders,
            slots=report.slots,
            busy=report.busy,
            partitions=tuple(
                partition
                for partition in sorted(report.partitions)
                if owners.get((report.pool, partition)) == report.node
            ),
            blocked=report.blocked,
            models=report.models,
            adapters=report.adapters,
            latency_ms=report.latency_mean_ms,
            reason=_reason(report, orders.get(NODE + report.node), heard, now_s),
        )
        for report in ordered
    )


def forgotten(
    nodes: Iterable[str], heard: Mapping[str, float], since_s: float, now_s: float
) -> list[str]:
    """Return the nodes silent for so long that they are to be removed.

    `since_s` is when this worker began to listen: what was before it does not know.
    """
    return [node for node in nodes if now_s - heard.get(node, since_s) > FORGET_AFTER_S]


def _owners(live: Iterable[NodeReport]) -> dict[tuple[str, int], str]:
    """Return the owner of each claimed pool partition: the claim of the highest generation.

    A node that was paused goes on claiming what the group gave away meanwhile. Within a generation
    the group gives a partition to one member only; should two claim it, the smaller id has it.
    """
    claims: dict[tuple[str, int], NodeReport] = {}
    for report in live:
        for partition in report.partitions:
            rival = claims.get((report.pool, partition))
            if rival is None or report.generation > rival.generation:
                claims[report.pool, partition] = report
    return {claimed: report.node for claimed, report in claims.items()}


def _lives(report: NodeReport, heard: Mapping[str, float], now_s: float) -> bool:
    return report.state in WORKING and not _silent(report.node, heard, now_s)


def _silent(node: str, heard: Mapping[str, float], now_s: float) -> bool:
    at_s = heard.get(node)
    return at_s is None or now_s - at_s > NODE_TTL_S


def _reason(
    report: NodeReport, order: Order | None, heard: Mapping[str, float], now_s: float
) -> str:
    if _silent(report.node, heard, now_s):
        return f"no report for {NODE_TTL_S:g} s"
    if report.state is NodeCondition.READY:
        return "" if order is None else order.in_words
    condition = report.state.value
    return f"{condition}: {report.reason}" if report.reason else condition
