"""Counts since this worker began: what routers decided, what nodes ran and what it cost.

Pure. Decisions are counted from their records; nodes count themselves and report their totals, of
which only what was added since their first report counts here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas import canary
from schemas.control import NodeTotals
from schemas.decisions import DEAD, DUPLICATE, Decided, DecisionRow
from schemas.features import objective_ms
from schemas.outcomes import Reason
from schemas.pools import GPU, ComputeType, Pool
from streams.policy.estimates import NOTHING_RAN, Estimates

NOWHERE = "none"
UNSERVED = frozenset({Reason.EXPIRED.value, Reason.UNROUTABLE.value})
"""What ends at a router: with an objective it has missed it."""
ROUTERS_MAX = 1000
"""Ids are by host and process: old ones are forgotten beyond this."""


class Cost(NamedTuple):
    """What requests are expected to cost, in seconds of a gpu slot."""

    routed: float = 0.0
    gpu_only: float = 0.0


@dataclass
class Counts:
    """All counts at one moment; `since` subtracts those of another.

    Attributes:
        decided: by (pool or none, reason).
        dead_letters, errors: by category.
        results: of nodes, by status.
        spent: cost coefficient x slot-seconds.
        met, missed: of requests with an objective, those that routers ended included.
        expected: of those for which nodes have measured both sides.
        canaries_lost: by compute type.
    """

    decided: Counter[tuple[str, str]] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    spent: float = 0.0
    met: int = 0
    missed: int = 0
    expected: Cost = field(default_factory=Cost)
    canaries_lost: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Counts:
        """Return the counts as they are now."""
        return self.since(Counts())

    def since(self, then: Counts) -> Counts:
        """Return what was added since."""
        return Counts(
            self.decided - then.decided,
            self.dead_letters - then.dead_letters,
            self.errors - then.errors,
            self.results - then.results,
            self.duplicates - then.duplicates,
            self.spent - then.spent,
            self.met - then.met,
            self.missed - then.missed,
            Cost(
                self.expected.routed - then.expected.routed,
                self.expected.gpu_only - then.expected.gpu_only,
            ),
            self.canaries_lost - then.canaries_lost,
        )


class Heard(NamedTuple):
    """The mode in which a router last decided, and when that was read, on a monotonic clock."""

    mode: str
    at_s: float


class Tally:
    """Folds decisions and reports.

    Attributes:
        counts: so far.
        routers: by id, as last heard.
    """

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        self.counts = Counts()
        self.routers: dict[str, Heard] = {}
        self._pools = {pool.name: pool for pool in pools}
        self._totals: dict[str, NodeTotals] = {}

    def decided(
        self, record: Decided, speeds: Mapping[ComputeType, Estimates], now_s: float
    ) -> Cost:
        """Count one record of decisions; return the cost expected of what it routed."""
        self.routers.pop(record.router, None)
        self.routers[record.router] = Heard(record.mode, now_s)
        while len(self.routers) > ROUTERS_MAX:
            del self.routers[next(iter(self.routers))]
        counts, added = self.counts, Cost()
        for row in record.rows:
            if row.outcome.startswith(DEAD):
                counts.dead_letters[row.outcome[len(DEAD) :]] += 1
            elif row.outcome == DUPLICATE:
                counts.duplicates += 1
            else:
                counts.decided[row.pool or NOWHERE, row.outcome] += 1
                counts.missed += row.outcome in UNSERVED and _has_objective(row)
                if row.id.startswith(canary.ID):
                    continue
                cost = self._expected(row, speeds)
                added = Cost(added.routed + cost.routed, added.gpu_only + cost.gpu_only)
        before = counts.expected
        counts.expected = Cost(before.routed + added.routed, before.gpu_only + added.gpu_only)
        return added

    def reported(self, node: str, totals: NodeTotals) -> None:
        """Count what a node added since its report before; the first one only says where it is."""
        before = self._totals.get(node)
        self._totals[node] = totals
        if before is None or totals == before:
            return
        if sum(totals.results.values()) < sum(before.results.values()):
            before = NodeTotals()  # it was started anew under its old name
        counts = self.counts
        counts.results += Counter(totals.results) - Counter(before.results)
        counts.errors += Counter(totals.errors) - Counter(before.errors)
        counts.dead_letters += Counter(totals.dead_letters) - Counter(before.dead_letters)
        counts.spent += max(0.0, totals.cost - before.cost)
        counts.met += max(0, totals.met - before.met)
        counts.missed += max(0, totals.missed - before.missed)

    def gone(self, nodes: frozenset[str]) -> None:
        """Forget nodes that are no longer reported."""
        for node in self._totals.keys() - nodes:
            del self._totals[node]

    def _expected(self, row: DecisionRow, speeds: Mapping[ComputeType, Estimates]) -> Cost:
        pool = self._pools.get(row.pool or NOWHERE)
        gpu = self._pools[GPU]
        if pool is None or row.features is None:
            return Cost()
        routed_s = _run_s(row, speeds.get(pool.compute_type))
        gpu_s = _run_s(row, speeds.get(gpu.compute_type))
        if routed_s is None or gpu_s is None:
            return Cost()
        return Cost(routed_s * pool.cost_coefficient, gpu_s * gpu.cost_coefficient)


def _run_s(row: DecisionRow, speeds: Estimates | None) -> float | None:
    if speeds is None or row.features is None:
        return None
    estimate = speeds.run(row.features.model, row.features.gflops, 0.0)
    return None if estimate.runs == NOTHING_RAN else estimate.p50_ms / 1000


def _has_objective(row: DecisionRow) -> bool:
    features = row.features
    return features is not None and objective_ms(features.slo_ms, features.priority) is not None
