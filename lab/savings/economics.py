"""What routing saves: every policy beside the arithmetic, beside the bound, beside each other.

One cell is a trace's half, a fleet and a seed. Policies are tuned on the first half and reported on
the second. The arithmetic is what would be saved if each request ran on the cheapest compute type
that can meet its objective, queues or not: f_eligible x (1 - slowdown / price ratio), added up
request by request. Pure but for the clock of the solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.savings.bound import lower_bound
from lab.savings.bursts import burstiness
from lab.savings.choices import choices_of, is_urgent
from lab.savings.fleet_costs import FleetCosts, Least, fleet_costs
from lab.savings.fleet_search import Found
from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, Percentiles, Thresholds, measure
from lab.simulator.run import simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import Asked, workload
from schemas.pools import GPU
from schemas.value import replace
from streams.policy import policy

POLICIES = ("gpu-only", "overflow", "predictive")
HOPS_MS = 25.0
"""What no policy can avoid: a router's transaction, a fetch, and a node's."""
FLEET_MINUTES = 6.0
"""Of the half, for which fleets are searched: each of dozens that are tried is a run of its own."""


class Possible(NamedTuple):
    """What the arithmetic says, as shares of what `gpu-only` costs.

    Attributes:
        eligible: of requests that a cheaper type can meet for certain: the end of its jitter too.
        saving: what moving all of these saves.
        hindsight: the same of all that a cheaper type would have met, as their runs then went.
    """

    eligible: float
    saving: float
    hindsight: float


class Bounded(NamedTuple):
    """What no schedule undercuts that meets every objective which can be met.

    Attributes:
        metered_cost: in gpu slot-seconds.
        attainment: share of objectives that can be met.
        gpus_limited: False if the gpus' slots do not limit it (see `lab.savings.bound`).
    """

    metered_cost: float
    attainment: float
    gpus_limited: bool


class Cell(NamedTuple):
    """One half of a trace, fleet and seed.

    Attributes:
        burstiness: of its first minutes (see `lab.savings.bursts`).
        fleets: for the same minutes.
    """

    trace: str
    burstiness: float
    fleet: str
    seed: int
    possible: Possible
    bound: Bounded
    measured: dict[str, Measures]
    fleets: FleetCosts

    @property
    def ours(self) -> Measures:
        """Return what `predictive` comes to."""
        return self.measured["predictive"]

    def saving(self, metered_cost: float) -> float | None:
        """Return the share of `gpu-only`'s metered cost that is saved; None if that ran nothing."""
        gpus = self.measured["gpu-only"].metered_cost
        return 1 - metered_cost / gpus if gpus else None


def cell_of(
    trace: str,
    arrivals: Sequence[Arrival],
    fleet: tuple[str, Fleet],
    seed: int,
    speed: float,
    say: Callable[[str], None],
) -> Cell:
    """Return what all policies come to on requests that nothing was tuned on."""
    name, hardware = fleet
    requests = workload(arrivals, seed, speed)

    def tell(what: str) -> None:
        say(f"{trace}, fleet {name}, seed {seed}: {what}")

    measured = {}
    for one in POLICIES:
        tell(one)
        chosen = policy(one)
        measured[one] = measure(simulate(hardware, requests, chosen), hardware, chosen)
    bound = lower_bound(hardware, requests)
    objectives = sum(one.slo_ms is not None for one in requests)
    first = [one for one in arrivals if one.at_ms < FLEET_MINUTES * 60_000]
    return Cell(
        trace,
        burstiness(first),
        name,
        seed,
        possible_saving(hardware, requests),
        Bounded(
            bound.metered_cost,
            1 - bound.too_late / objectives if objectives else 1.0,
            bound.gpus_limited,
        ),
        measured,
        fleet_costs(hardware, workload(first, seed, speed), tell),
    )


def second_half(arrivals: Sequence[Arrival], minutes: float = math.inf) -> list[Arrival]:
    """Return the requests that were not tuned on, so many minutes of them, from time 0."""
    half = arrivals[len(arrivals) // 2 :]
    first_ms = half[0].at_ms
    return [
        replace(one, at_ms=one.at_ms - first_ms)
        for one in half
        if one.at_ms - first_ms < minutes * 60_000
    ]


def possible_saving(fleet: Fleet, requests: Iterable[Asked]) -> Possible:
    """Return what the arithmetic says of requests on a fleet, where none takes no time."""
    gpu = next(index for index, one in enumerate(fleet.pools) if one.name == GPU)
    total = eligible = saved = hindsight = 0.0
    for asked in requests:
        choices = choices_of(fleet, asked)[0]
        on_gpu = fleet.pools[gpu].profile.run_ms(
            asked.prompt_tokens, asked.output_tokens, 1, asked.chance
        )
        cost = fleet.priced[gpu].cost_coefficient * on_gpu / 1000
        total += cost
        if is_urgent(asked):
            continue
        hindsight += max(0.0, cost - min(one.cost for one in choices))
        certain = [one.cost for one in choices if _is_certain(fleet, asked, one.pool)]
        if certain and min(certain) < cost:
            eligible += cost
            saved += cost - min(certain)
    return Possible(eligible / total, saved / total, hindsight / total)


def _is_certain(fleet: Fleet, asked: Asked, pool: int) -> bool:
    """Return whether a pool meets the objective however the run's chance falls, without a queue."""
    if asked.slo_ms is None:
        return True
    slowest = fleet.pools[pool].profile.run_ms(asked.prompt_tokens, asked.output_tokens, 1, 1.0)
    return HOPS_MS + slowest <= asked.slo_ms


def document_of(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON."""
    fleets = cell.fleets
    return {
        "trace": cell.trace,
        "burstiness": cell.burstiness,
        "fleet": cell.fleet,
        "seed": cell.seed,
        "possible": cell.possible._asdict(),
        "bound": cell.bound._asdict(),
        "policies": {
            name: {
                "metered_cost": one.metered_cost,
                "saving": cell.saving(one.metered_cost),
                "slo_attainment": one.slo_attainment,
                "overflow_share": one.overflow_share,
                "latency_ms": {c: p._asdict() for c, p in one.latency_ms.items()},
                "unserved": one.unserved,
            }
            for name, one in cell.measured.items()
        },
        "fleets": {
            "found": {name: found and found._asdict() for name, found in fleets.found.items()},
            "least": fleets.least._asdict(),
            "least_gpus": fleets.least_gpus._asdict(),
        },
    }


def cell_from(said: Mapping[str, Any]) -> Cell:
    """Return the cell that a document tells, without thresholds."""
    fleets = said["fleets"]
    return Cell(
        said["trace"],
        said["burstiness"],
        said["fleet"],
        said["seed"],
        Possible(**said["possible"]),
        Bounded(**said["bound"]),
        {
            name: Measures(
                one["metered_cost"],
                one["slo_attainment"],
                {kind: Percentiles(**known) for kind, known in one["latency_ms"].items()},
                one["overflow_share"],
                Thresholds(0, 0, 0),
                one["unserved"],
            )
            for name, one in said["policies"].items()
        },
        FleetCosts(
            {name: Found(**found) if found else None for name, found in fleets["found"].items()},
            Least(**fleets["least"]),
            Least(**fleets["least_gpus"]),
        ),
    )
