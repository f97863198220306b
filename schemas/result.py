"""The result: the terminal record of a request that ran, failed or expired.

Written by executors and, for what is never routed, by routers; consumers need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from schemas.document import JsonObject
from schemas.message import Message
from schemas.outcomes import ErrorCategory, Mode, Reason, Status
from schemas.pools import ComputeType


class ResultError(Message):
    """Why a result is not `ok`: a closed category and one line for people."""

    category: ErrorCategory
    message: str


class ServedBy(Message):
    """What ran the request; `emulated` is true when any part of it was made up."""

    node: str
    pool: str
    compute_type: ComputeType
    backend: str
    engine: str
    device: str
    model: str
    adapter: str | None = None
    emulated: bool = False


class Timings(Message):
    """Where the time went, ms: to the decision, to a slot, in the slot, from arrival to end.

    Attributes:
        first_token: from the start of the run to the first of its text, where the engine streams.
    """

    to_router: float
    in_pool: float = 0.0
    run: float = 0.0
    first_token: float | None = None
    total: float


class Slo(Message):
    """The objective and whether `timings_ms.total` met it; both None without an objective."""

    ms: float | None = None
    met: bool | None = None


class DecisionSummary(Message):
    """How the router decided."""

    reason: Reason
    threshold: int
    policy: str
    mode: Mode = Mode.NORMAL
    pool: str | None = None
    node: str | None = None
    decided_at_ms: int = 0


class DecisionHeader(DecisionSummary):
    """The value of the header `overspill-decision`; results have the summary alone."""

    yields_ms: int = Field(default=0, ge=0)
    """For so long from its arrival it leaves the last free slot to others, where one is kept."""
    counts_work: bool = False
    """The router added the request's work to its counts; older ones counted records only."""


class Result(Message):
    """One terminal record in `results`, under the request's key."""

    version: int = 1
    id: str
    status: Status
    output: JsonObject | None = None
    """The response body of the payload's protocol."""
    error: ResultError | None = None
    served_by: ServedBy | None = None
    timings_ms: Timings
    usage: JsonObject | None = None
    cost: float = 0.0
    """Cost coefficient of the pool x slot-seconds of the last attempt."""
    earlier_cost: dict[str, float] = Field(default_factory=dict)
    """The same of earlier attempts that nodes handed back after a run, by pool."""
    slo: Slo = Slo()
    decision: DecisionSummary
    attempt: int = 1
    tenant: str | None = None
    model_name: str = ""

    @property
    def run_ended_ms(self) -> float:
        """Return when its run ended, epoch ms."""
        return self.decision.decided_at_ms + self.timings_ms.in_pool + self.timings_ms.run


def slo_of(slo_ms: float | None, total_ms: float) -> Slo:
    """Return whether the objective was met: total <= ms."""
    return Slo() if slo_ms is None else Slo(ms=slo_ms, met=total_ms <= slo_ms)


def by_pool(spent: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return what attempts have cost, added up by pool."""
    costs: dict[str, float] = {}
    for pool, cost in spent:
        costs[pool] = costs.get(pool, 0.0) + cost
    return costs
