"""What all nodes of a compute type have measured together, and which node is slower than they are.

Pure. Quantiles are merged as means weighted by runs: exact where nodes are alike, and where one is
not, its slowness says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import NamedTuple

from schemas.pools import ComputeType
from schemas.service import ServiceTime

KINDS_MAX = 128
"""Models and sizes of one compute type in a snapshot, those with the most runs: 8 KB."""
SLOWNESS_STEP = 16
"""Slowness is told in sixteenths, so that a node's state does not change with every run."""
SLOWNESS_MAX = 64.0
"""Beyond it a node is broken, not slow."""
RUNS_ENOUGH = 8
"""Runs that two must have in common with the others before a node is called slow or fast."""


class Measured(NamedTuple):
    """What one node has measured."""

    node: str
    compute_type: ComputeType
    service: Sequence[ServiceTime]


class Speeds(NamedTuple):
    """What is known of run times.

    Attributes:
        service: by compute type, by model and size.
        slowness: of nodes that differ: how many times as long as its compute type's a run takes.
    """

    service: Mapping[ComputeType, tuple[ServiceTime, ...]]
    slowness: Mapping[str, float]


NOTHING = Speeds({}, {})


def speeds_of(nodes: Iterable[Measured], before: Speeds = NOTHING) -> Speeds:
    """Return what the nodes have measured together; what is as `before` is the same object."""
    told = [node for node in nodes if node.service]
    by_type: dict[ComputeType, list[Measured]] = defaultdict(list)
    for node in told:
        by_type[node.compute_type].append(node)
    service = {
        kind: _merged(of_type, before.service.get(kind, ())) for kind, of_type in by_type.items()
    }
    slowness = {}
    for kind, of_type in by_type.items():
        if len(of_type) > 1:
            usual = {(one.model, one.size): one for one in service[kind]}
            for node in of_type:
                slow = _slowness(node.service, usual)
                if slow != 1.0:
                    slowness[node.node] = slow
    return Speeds(service, slowness)


def _merged(nodes: Sequence[Measured], before: tuple[ServiceTime, ...]) -> tuple[ServiceTime, ...]:
    sums: dict[tuple[str, int], list[float]] = {}
    for node in nodes:
        for one in node.service:
            kind, count = (one.model, one.size), one.count
            known = sums.get(kind)
            if known is None:
                known = sums[kind] = [0, 0.0, 0.0]
            known[0] += count
            known[1] += count * one.p50
            known[2] += count * one.p95
    most = sorted(sums, key=lambda kind: (-sums[kind][0], kind))[:KINDS_MAX]
    # In a second most kinds have not run, and to make a message takes longer than to add it up.
    kept = {(one.model, one.size): one for one in before}
    merged = tuple([_mean(kind, sums[kind], kept.get(kind)) for kind in sorted(most)])
    return before if len(before) == len(merged) and all(map(is_, before, merged)) else merged


def _mean(kind: tuple[str, int], sums: list[float], kept: ServiceTime | None) -> ServiceTime:
    runs, p50_sum, p95_sum = sums
    count, p50, p95 = int(runs), p50_sum / runs, p95_sum / runs
    if kept is not None and (kept.count, kept.p50, kept.p95) == (count, p50, p95):
        return kept
    model, size = kind
    return ServiceTime(model=model, size=size, count=count, p50=p50, p95=p95)


def _slowness(own: Sequence[ServiceTime], usual: Mapping[tuple[str, int], ServiceTime]) -> float:
    """Return how many times as long as on the other nodes runs take here, the median one."""
    runs, total = 0, 0.0
    for one in own:
        of_all, count, p50 = usual.get((one.model, one.size)), one.count, one.p50
        if of_all is None or of_all.count == count or p50 <= 0:
            continue
        # Of all but this node: against a mean with itself in it a slow node looks half as slow.
        others = (of_all.p50 * of_all.count - p50 * count) / (of_all.count - count)
        if others > 0:
            runs += count
            total += count * math.log(p50 / others)
    if runs < RUNS_ENOUGH:
        return 1.0
    slow = min(SLOWNESS_MAX, math.exp(total / runs))
    return max(1, round(slow * SLOWNESS_STEP)) / SLOWNESS_STEP
