"""The account of a demo: what went where and why, what it cost, which objectives were met.

Pure. It is kept while results come in, and made again from the topics at the end; the fresh one is
what counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deploy.client.judge import Verdict
from deploy.client.terminal import Terminal
from deploy.local.demo.traffic import Kind
from schemas.headers import Origin
from schemas.outcomes import Reason, Status
from schemas.pools import GPU

NOWHERE = "-"
"""The pool of what was not routed."""

COST_HOW = (
    "Metered: the price of the pool (gpu 1.0, npu 0.3, cpu 0.1 a slot-second) times the seconds in "
    "a slot. GPU-only: every request at the mean cost of those that ran on the gpu pool here"
)


DEAD_LETTER = "dead-letter"
"""The reason of what was no request; which way it was none is counted apart."""


class Way(NamedTuple):
    """Where a request went (or NOWHERE) and why."""

    pool: str
    reason: str


class Took(NamedTuple):
    """From arrival to result, and how much of it the model ran; ms."""

    total_ms: float
    run_ms: float


class Sample(NamedTuple):
    """Model text that a request got."""

    kind: Kind
    adapter: str | None
    pool: str
    emulated: bool
    output: dict[str, Any]


@dataclass
class Account:
    """Counts that grow as requests are sent and end.

    Attributes:
        sent: by kind.
        ways: of those that ended, by kind.
        statuses: of results.
        dead_letters: by category.
        slo_ms: the objective of each kind that has one, ms.
        objectives, met: results that had an objective, and those that met it, by kind.
        took: how long those took, by kind.
        ran, costs: by pool: how many ran there, and what they cost together.
        emulated: pools with made-up hardware.
        samples: model text, one of each adapter and one without.
    """

    sent: Counter[Kind] = field(default_factory=Counter)
    ways: dict[Kind, Counter[Way]] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)
    dead_letters: Counter[str] = field(default_factory=Counter)
    slo_ms: dict[Kind, float] = field(default_factory=dict)
    objectives: Counter[Kind] = field(default_factory=Counter)
    met: Counter[Kind] = field(default_factory=Counter)
    took: dict[Kind, list[Took]] = field(default_factory=dict)
    ran: Counter[str] = field(default_factory=Counter)
    costs: dict[str, float] = field(default_factory=dict)
    emulated: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)

    @property
    def ended(self) -> int:
        """Return how many have ended."""
        return sum(self.statuses.values()) + sum(self.dead_letters.values())

    @property
    def by_way(self) -> Counter[Way]:
        """Return the ways of all kinds."""
        return sum(self.ways.values(), Counter())

    @property
    def by_pool(self) -> Counter[str]:
        """Return how many went to each pool."""
        return _summed((way.pool, count) for way, count in self.by_way.items())

    @property
    def by_reason(self) -> Counter[str]:
        """Return how many went for each reason."""
        return _summed((way.reason, count) for way, count in self.by_way.items())

    @property
    def metered_cost(self) -> float:
        """Return what all results cost together, in gpu slot-seconds."""
        return sum(self.costs.values())

    @property
    def gpu_only_cost(self) -> float | None:
        """Return what they had cost at this run's mean gpu cost; None if none ran there."""
        if not self.ran[GPU]:
            return None
        return self.costs[GPU] / self.ran[GPU] * sum(self.ran.values())

    def end(self, kind: Kind, terminal: Terminal) -> Way:
        """Enter how one request ended; return where it went."""
        result = terminal.result
        if result is None:
            self.dead_letters[terminal.category] += 1
            way = Way(NOWHERE, DEAD_LETTER)
        else:
            self.statuses[result.status.value] += 1
            late = result.status is Status.EXPIRED  # at the router, or waiting for a slot
            reason = Reason.EXPIRED if late else result.decision.reason
            way = Way(result.decision.pool or NOWHERE, reason.value)
            if result.slo.ms is not None:
                self.slo_ms[kind] = result.slo.ms
                self.objectives[kind] += 1
                self.met[kind] += bool(result.slo.met)
                took = Took(result.timings_ms.total, result.timings_ms.run or 0.0)
                self.took.setdefault(kind, []).append(took)
            if result.served_by is not None:
                pool = result.served_by.pool
                self.ran[pool] += 1
                self.costs[pool] = self.costs.get(pool, 0.0) + result.cost
                if result.served_by.emulated:
                    self.emulated.add(pool)
                if result.status is Status.OK and result.output is not None:
                    adapter, emulated = result.served_by.adapter, result.served_by.emulated
                    self._keep(Sample(kind, adapter, pool, emulated, result.output))
        self.ways.setdefault(kind, Counter())[way] += 1
        return way

    def _keep(self, sample: Sample) -> None:
        """Keep the first sample of each adapter, and of the model without one."""
        if sample.adapter not in {kept.adapter for kept in self.samples}:
            self.samples.append(sample)


def account_of(kinds: dict[Origin, Kind], ends: Iterable[Terminal]) -> Account:
    """Return the account of these requests from their terminal records."""
    account = Account(sent=Counter(kinds.values()))
    for terminal in ends:
        if terminal.origin in kinds:
            account.end(kinds[terminal.origin], terminal)
    return account


def document(
    account: Account, verdict: Verdict, thresholds: list[int], took_s: float
) -> dict[str, Any]:
    """Return the account as data for `--json`."""
    gpu_only = account.gpu_only_cost
    return {
        "exactly_once": verdict.exactly_once,
        "requests": verdict.asked,
        "terminal_records": len(verdict.ends),
        "missing": [origin.encode().decode() for origin in verdict.missing],
        "repeated": [origin.encode().decode() for origin in verdict.repeated],
        "strange": [origin.encode().decode() for origin in verdict.strange],
        "statuses": dict(account.statuses),
        "pools": dict(account.by_pool),
        "reasons": dict(account.by_reason),
        "kinds": {
            kind.value: {
                "sent": sent,
                "ways": [
                    {"pool": way.pool, "reason": way.reason, "requests": count}
                    for way, count in account.ways.get(kind, Counter()).most_common()
                ],
            }
            for kind, sent in account.sent.items()
        },
        "emulated_pools": sorted(account.emulated),
        "threshold": {"min": min(thresholds), "max": max(thresholds)} if thresholds else None,
        "cost": {
            "metered": round(account.metered_cost, 4),
            "gpu_only": None if gpu_only is None else round(gpu_only, 4),
            "how": COST_HOW,
        },
        "slo": {
            kind.value: {
                "objective_ms": account.slo_ms[kind],
                "requests": count,
                "met": account.met[kind],
                "attainment": round(account.met[kind] / count, 3),
            }
            for kind, count in account.objectives.items()
        },
        "dead_letters": dict(account.dead_letters),
        "texts": [{**sample._asdict(), "kind": sample.kind.value} for sample in account.samples],
        "seconds": round(took_s, 1),
    }


def _summed(pairs: Iterable[tuple[str, int]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, count in pairs:
        counts[name] += count
    return counts
