"""Does the simulator say what a live run says? The same requests, fleet and policy, side by side.

Pure: what was read from the topics of a run in, figures out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lab.simulator.fleet import Delays, Fleet
from lab.simulator.measures import measure
from lab.simulator.run import simulate
from lab.simulator.workload import Asked
from schemas.outcomes import Status
from schemas.result import Result
from streams.policy import Policy

COST_WITHIN = 0.05
ATTAINMENT_WITHIN = 0.02
"""What counts as agreement: 5 % of the cost, two points of the objectives met."""


class Decided(NamedTuple):
    """One routing transaction: when it was decided and when it was committed, epoch ms."""

    decided_ms: float
    committed_ms: float
    counts_age_ms: float | None
    """Of the counts it was decided by; None where they are not known."""


class Finished(NamedTuple):
    """One result, and when it was committed, epoch ms."""

    result: Result
    committed_ms: float


class Hops(NamedTuple):
    """How long the ways of a request took in a live run, ms; medians unless said otherwise.

    Attributes:
        to_decision: from its arrival.
        routing: from a decision to its commit.
        fetch: from there to a slot, by the quickest tenth: those that found a slot free.
        result: from the end of a run to the commit of its result.
        counts_age: of the counts that were decided by.
    """

    to_decision: float
    routing: float
    fetch: float
    result: float
    counts_age: float


class Figures(NamedTuple):
    """What one side comes to; costs in gpu slot-seconds."""

    requests: int
    metered_cost: float
    slo_attainment: float
    share_by_pool: Mapping[str, float]
    latency_p50_ms: float
    latency_p99_ms: float


class Agreement(NamedTuple):
    """Both sides, and how far they are apart."""

    hops: Hops
    live: Figures
    simulated: Figures

    @property
    def cost_apart(self) -> float:
        """Return by what share the simulated cost is off the live one."""
        return self.simulated.metered_cost / self.live.metered_cost - 1

    @property
    def attainment_apart(self) -> float:
        """Return by what share of objectives the simulator is off."""
        return self.simulated.slo_attainment - self.live.slo_attainment

    @property
    def agrees(self) -> bool:
        """Return whether both are within their bounds."""
        return (
            abs(self.cost_apart) <= COST_WITHIN and abs(self.attainment_apart) <= ATTAINMENT_WITHIN
        )


def document_of(found: Agreement) -> dict[str, Any]:
    """Return the agreement as a JSON document."""
    return {
        "hops_ms": found.hops._asdict(),
        "live": found.live._asdict(),
        "simulated": found.simulated._asdict(),
        "cost_apart": found.cost_apart,
        "attainment_apart": found.attainment_apart,
        "agrees": found.agrees,
    }


def agreement(
    fleet: Fleet,
    requests: Sequence[Asked],
    policy: Policy,
    decided: Sequence[Decided],
    finished: Sequence[Finished],
) -> Agreement:
    """Return what a live run and the simulator come to; the hops of the one feed the other."""
    hops = hops_of(decided, finished)
    delays = fleet.delays.model_copy(
        update={
            "routing_ms": hops.routing,
            "fetch_ms": hops.to_decision + hops.fetch,
            "result_ms": hops.result,
            "snapshot_ms": _snapshot_ms(fleet.delays, hops.counts_age),
        }
    )
    fleet = fleet.model_copy(update={"delays": delays})
    return Agreement(hops, _live(finished), _simulated(fleet, requests, policy))


def hops_of(decided: Sequence[Decided], finished: Sequence[Finished]) -> Hops:
    """Return how long the ways took."""
    timings = [each.result.timings_ms for each in finished]
    routing = statistics.median(each.committed_ms - each.decided_ms for each in decided)
    quickest = statistics.quantiles([timing.in_pool for timing in timings], n=10)[0]
    ages = [each.counts_age_ms for each in decided if each.counts_age_ms is not None]
    return Hops(
        statistics.median(timing.to_router for timing in timings),
        max(0.0, routing),
        max(0.0, quickest - routing),
        max(
            0.0,
            statistics.median(each.committed_ms - each.result.run_ended_ms for each in finished),
        ),
        statistics.median(ages) if ages else 0.0,
    )


def _snapshot_ms(delays: Delays, counts_age_ms: float) -> float:
    """Return a snapshot's way: what is left of the age of counts without half a probe's turn."""
    return max(0.0, counts_age_ms - delays.probe_takes_ms - delays.probe_every_ms / 2)


def _live(finished: Sequence[Finished]) -> Figures:
    results = [each.result for each in finished]
    bound = [result for result in results if result.slo.ms is not None]
    met = sum(result.status is Status.OK and bool(result.slo.met) for result in bound)
    pools = [result.served_by.pool for result in results if result.served_by is not None]
    return Figures(
        len(results),
        math.fsum(result.cost for result in results),
        met / len(bound) if bound else 1.0,
        _shares(pools),
        *_percentiles([result.timings_ms.total for result in results]),
    )


def _simulated(fleet: Fleet, requests: Sequence[Asked], policy: Policy) -> Figures:
    course = simulate(fleet, requests, policy)
    measures = measure(course, fleet, policy)
    return Figures(
        len(course.ended),
        measures.metered_cost,
        measures.slo_attainment,
        _shares([one.pool for one in course.ended if one.pool]),
        *_percentiles([one.latency_ms for one in course.ended]),
    )


def _shares(pools: Sequence[str]) -> dict[str, float]:
    return {pool: pools.count(pool) / len(pools) for pool in sorted(set(pools))}


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100)
    return cuts[49], cuts[98]
