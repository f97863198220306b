"""What all nodes of a compute type have measured together, and which node is slower than they are.

Pure. Quantiles are merged as means weighted by runs: exact where nodes are alike, and where one is
not, its slowness says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from types import MappingProxyType
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


_Kind = tuple[str, int]
"""Model and size."""


_Row = tuple[_Kind, int, float, float, float]
"""What a node has measured of one kind: runs and p50, and what these add to the sums over nodes."""
_Rows = tuple[Sequence[ServiceTime], list[_Row]]
"""What a node has told, and its rows."""


class Speeds(NamedTuple):
    """What is known of run times.

    Attributes:
        service: by compute type, by model and size.
        slowness: of nodes that differ: how many times as long as its compute type's a run takes.
        rows: by node, what was read of its report: kept while it says nothing else.
    """

    service: Mapping[ComputeType, tuple[ServiceTime, ...]]
    slowness: Mapping[str, float]
    rows: Mapping[str, _Rows] = MappingProxyType({})


NOTHING = Speeds({}, {})


def speeds_of(nodes: Iterable[Measured], before: Speeds = NOTHING) -> Speeds:
    """Return what the nodes have measured together; what is as `before` is the same object."""
    rows: dict[str, _Rows] = {}
    by_type: dict[ComputeType, list[str]] = defaultdict(list)
    for node in nodes:
        if node.service:
            kept = before.rows.get(node.node)
            if kept is None or kept[0] is not node.service:
                kept = node.service, [_row(one) for one in node.service]
            rows[node.node] = kept
            by_type[node.compute_type].append(node.node)
    service: dict[ComputeType, tuple[ServiceTime, ...]] = {}
    slowness = {}
    for compute_type, names in by_type.items():
        of_type = [rows[name][1] for name in names]
        service[compute_type] = _merged(of_type, before.service.get(compute_type, ()))
        if len(of_type) > 1:
            usual = {(one.model, one.size): (one.count, one.p50) for one in service[compute_type]}
            for name, own in zip(names, of_type, strict=True):
                slow = _slowness(own, usual)
                if slow != 1.0:
                    slowness[name] = slow
    return Speeds(service, slowness, rows)


def _row(told: ServiceTime) -> _Row:
    # Read once: a field of a message takes as long to look up as the sums that it goes into.
    count, p50 = told.count, told.p50
    return (told.model, told.size), count, p50, count * p50, count * told.p95


def _merged(
    nodes: Sequence[Sequence[_Row]], before: tuple[ServiceTime, ...]
) -> tuple[ServiceTime, ...]:
    sums: dict[_Kind, tuple[int, float, float]] = {}
    for rows in nodes:
        for kind, count, _, p50_sum, p95_sum in rows:
            known = sums.get(kind)
            if known is None:
                sums[kind] = count, p50_sum, p95_sum
            else:
                runs, p50, p95 = known
                sums[kind] = runs + count, p50 + p50_sum, p95 + p95_sum
    most: Iterable[_Kind] = sums
    if len(sums) > KINDS_MAX:
        most = sorted(sums, key=lambda kind: (-sums[kind][0], kind))[:KINDS_MAX]
    # In a second most kinds have not run, and to make a message takes longer than to add it up.
    kept = {(one.model, one.size): one for one in before}
    merged = tuple([_mean(kind, sums[kind], kept.get(kind)) for kind in sorted(most)])
    return before if len(before) == len(merged) and all(map(is_, before, merged)) else merged


def _mean(kind: _Kind, sums: tuple[int, float, float], kept: ServiceTime | None) -> ServiceTime:
    count, p50_sum, p95_sum = sums
    p50, p95 = p50_sum / count, p95_sum / count
    if kept is not None and (kept.count, kept.p50, kept.p95) == (count, p50, p95):
        return kept
    model, size = kind
    return ServiceTime(model=model, size=size, count=count, p50=p50, p95=p95)


def _slowness(own: Sequence[_Row], usual: Mapping[_Kind, tuple[int, float]]) -> float:
    """Return how many times as long as on the other nodes runs take here, the median one."""
    runs, total = 0, 0.0
    for kind, count, p50, p50_sum, _ in own:
        of_all = usual.get(kind)
        if of_all is None or of_all[0] == count or p50 <= 0:
            continue
        # Of all but this node: against a mean with itself in it a slow node looks half as slow.
        runs_of_all, p50_of_all = of_all
        others = (p50_of_all * runs_of_all - p50_sum) / (runs_of_all - count)
        if others > 0:
            runs += count
            total += count * math.log(p50 / others)
    if runs < RUNS_ENOUGH:
        return 1.0
    slow = min(SLOWNESS_MAX, math.exp(total / runs))
    return max(1, round(slow * SLOWNESS_STEP)) / SLOWNESS_STEP
