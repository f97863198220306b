"""What all nodes of a compute type have measured together, and which node is slower than they are.

Pure. Quantiles are merged as means weighted by runs: exact where nodes are alike, and where one is
not, its slowness says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


def speeds_of(nodes: Iterable[Measured]) -> Speeds:
    """Return what the nodes have measured together."""
    told = [node for node in nodes if node.service]
    by_type: dict[ComputeType, list[Measured]] = defaultdict(list)
    for node in told:
        by_type[node.compute_type].append(node)
    service = {kind: _merged(of_type) for kind, of_type in by_type.items()}
    slowness = {}
    for kind, of_type in by_type.items():
        if len(of_type) > 1:
            usual = {(one.model, one.size): one for one in service[kind]}
            for node in of_type:
                slow = _slowness(node.service, usual)
                if slow != 1.0:
                    slowness[node.node] = slow
    return Speeds(service, slowness)


def _merged(nodes: Sequence[Measured]) -> tuple[ServiceTime, ...]:
    sums: dict[tuple[str, int], list[float]] = {}
    for node in nodes:
        for one in node.service:
            known = sums.setdefault((one.model, one.size), [0, 0.0, 0.0])
            known[0] += one.count
            known[1] += one.count * one.p50
            known[2] += one.count * one.p95
    most = sorted(sums, key=lambda kind: (-sums[kind][0], kind))[:KINDS_MAX]
    return tuple(
        ServiceTime(
            model=model,
            size=size,
            count=int(sums[model, size][0]),
            p50=sums[model, size][1] / sums[model, size][0],
            p95=sums[model, size][2] / sums[model, size][0],
        )
        for model, size in sorted(most)
    )


def _slowness(own: Sequence[ServiceTime], usual: Mapping[tuple[str, int], ServiceTime]) -> float:
    """Return how many times as long as on the other nodes runs take here, the median one."""
    runs, total = 0, 0.0
    for one in own:
        of_all = usual.get((one.model, one.size))
        if of_all is None or of_all.count == one.count or one.p50 <= 0:
            continue
        # Of all but this node: against a mean with itself in it a slow node looks half as slow.
        others = (of_all.p50 * of_all.count - one.p50 * one.count) / (of_all.count - one.count)
        if others > 0:
            runs += one.count
            total += one.count * math.log(one.p50 / others)
    if runs < RUNS_ENOUGH:
        return 1.0
    slow = min(SLOWNESS_MAX, math.exp(total / runs))
    return max(1, round(slow * SLOWNESS_STEP)) / SLOWNESS_STEP
