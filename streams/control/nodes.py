"""The node table's meaning: which nodes live, and which of them has each partition.

Pure. A report says what a node is; that it lives is judged here, by when reports arrived on this
worker's own clock: the clocks of nodes are never compared with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import NamedTuple

from schemas.control import NODE_TTL_S, LagSample, NodeCondition, NodeReport, NodeState
from schemas.orders import NODE, Order
from streams.control.speeds import NOTHING

_ID = attrgetter("node")

WORKING = frozenset({NodeCondition.READY, NodeCondition.DRAINING})
"""In which a node takes what is routed to it; in any other it counts as down, with its reason."""
FORGET_AFTER_S = 600.0
"""A node silent for this long is removed: its name was a process that no longer exists."""


class Heard(NamedTuple):
    """When a node's last report arrived, in seconds of a monotonic clock.

    Attributes:
        finished: what its partitions had finished by then, as far as known.
    """

    at_s: float
    finished: int = 0


class _Facts(NamedTuple):
    """What a node's state is made of beside its report."""

    heard: bool
    partitions: tuple[int, ...]
    busy: int
    order: Order | None
    slowness: float


Memo = dict[str, tuple[NodeReport, _Facts, NodeState]]
"""The states made last, and from what: of 500 nodes a fifth report between two snapshots."""


def node_states(
    reports: Iterable[NodeReport],
    orders: Mapping[str, Order],
    heard: Mapping[str, Heard],
    sample: LagSample,
    now_s: float,
    memo: Memo,
    slowness: Mapping[str, float] = NOTHING.slowness,
) -> tuple[NodeState, ...]:
    """Return the state of every node, by id.

    Args:
        reports: the last one of each node.
        orders: that stand, by what they are about.
        heard: by node, of its last report.
        sample: the last one.
        now_s: the time on the clock of `heard`.
        memo: what the last call left; states that are the same are taken from it.
        slowness: of nodes that are slower or faster than others of their compute type.
    """
    ordered = sorted(reports, key=_ID)
    lately = {node for node, said in heard.items() if now_s - said.at_s <= NODE_TTL_S}
    owned = _owned(r for r in ordered if r.node in lately and r.state in WORKING)
    states = []
    for report in ordered:
        node = report.node
        facts = _Facts(
            node in lately,
            tuple(sorted(owned[node])) if node in owned else (),
            _still_busy(report, heard.get(node), sample) if report.busy else 0,
            orders.get(NODE + node) if orders else None,
            slowness.get(node, 1.0),
        )
        known = memo.get(node)
        if known is None or known[0] is not report or known[1] != facts:
            known = memo[node] = report, facts, _state(report, facts)
        states.append(known[2])
    if len(memo) > len(states):
        for gone in memo.keys() - {state.id for state in states}:
            del memo[gone]
    return tuple(states)


def _state(report: NodeReport, facts: _Facts) -> NodeState:
    return NodeState(
        id=report.node,
        pool=report.pool,
        live=facts.heard and report.state in WORKING,
        draining=report.state is NodeCondition.DRAINING or facts.order is not None,
        slots=report.slots,
        busy=facts.busy,
        partitions=facts.partitions,
        blocked=report.blocked,
        models=report.models,
        adapters=report.adapters,
        latency_ms=report.latency_mean_ms,
        queued=report.queued,
        slowness=facts.slowness,
        reason=_reason(report, facts),
    )


def forgotten(
    nodes: Iterable[str], heard: Mapping[str, Heard], since_s: float, now_s: float
) -> list[str]:
    """Return the nodes silent for so long that they are to be removed.

    `since_s` is when this worker began to listen: what was before it does not know.
    """
    last_s = {node: said.at_s for node, said in heard.items()}
    return [node for node in nodes if now_s - last_s.get(node, since_s) > FORGET_AFTER_S]


def finished_by(report: NodeReport, sample: LagSample | None) -> int:
    """Return how many records the partitions that a node claims have finished by a sample."""
    lags = () if sample is None else sample.pools.get(report.pool, ())
    return sum(lags[number].finished for number in report.partitions if number < len(lags))


def _still_busy(report: NodeReport, said: Heard | None, sample: LagSample) -> int:
    """Return how many of the slots that a node reported as busy still are, at least.

    A report is up to half a second old, the counts a tenth: as it stands, a node that has finished
    what it ran then would count as full until its next report.
    """
    if said is None or not report.partitions:
        return report.busy
    return max(0, report.busy - max(0, finished_by(report, sample) - said.finished))


def _owned(live: Iterable[NodeReport]) -> dict[str, list[int]]:
    """Return the partitions of each node: those it claims with the highest generation.

    A node that was paused goes on claiming what the group gave away meanwhile. Within a generation
    the group gives a partition to one member only; should two claim it, the smaller id has it.
    """
    claims: dict[tuple[str, int], NodeReport] = {}
    for report in live:
        for partition in report.partitions:
            rival = claims.get((report.pool, partition))
            if rival is None or report.generation > rival.generation:
                claims[report.pool, partition] = report
    owned: dict[str, list[int]] = defaultdict(list)
    for (_, partition), report in claims.items():
        owned[report.node].append(partition)
    return owned


def _reason(report: NodeReport, facts: _Facts) -> str:
    if not facts.heard:
        return f"no report for {NODE_TTL_S:g} s"
    if report.state is NodeCondition.READY:
        return "" if facts.order is None else facts.order.in_words
    condition = report.state.value
    return f"{condition}: {report.reason}" if report.reason else condition
