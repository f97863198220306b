"""What routing saves: every policy beside the arithmetic, beside the bound, beside each other.

One cell is a trace's half, a fleet and a seed. Policies are tuned on the first half and reported on
the second. The arithmetic is what would be saved if each request ran on the cheapest compute type
that can meet its objective, queues or not: f_eligible x (1 - slowdown / price ratio), added up
request by request. Pure but for the clock of the solver.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from lab.bound import lower_bound
from lab.choices import choices_of, is_urgent
from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, measure
from lab.simulator.run import simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import Asked, workload
from schemas.pools import GPU
from streams.policy import policy

POLICIES = ("gpu-only", "overflow", "predictive")
HOPS_MS = 25.0
"""What no policy can avoid: a router's transaction, a fetch, and a node's."""
SHARE_OF_POSSIBLE, OF_BOUND_MOST, POINTS_LESS = 0.9, 1.25, 0.005
"""What is asked of `predictive`: of the possible saving, of the bound, of gpu-only's attainment."""


COLUMNS = (
    "trace",
    "fleet",
    "possible (known afterwards)",
    "saved: `overflow`",
    "`predictive`",
    "of the possible",
    "above the bound",
    "objectives met: `gpu-only`",
    "`overflow`",
    "`predictive`",
    "what is asked",
)


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


class Cell(NamedTuple):
    """One half of a trace, fleet and seed."""

    trace: str
    fleet: str
    seed: int
    possible: Possible
    bound_cost: float
    gpus_limited: bool
    measured: dict[str, Measures]

    def saving(self, name: str) -> float:
        """Return the share of `gpu-only`'s metered cost that a policy saves."""
        return 1 - self.measured[name].metered_cost / self.measured["gpu-only"].metered_cost

    @property
    def verdicts(self) -> dict[str, bool]:
        """Return what is asked of `predictive`, and whether it holds."""
        ours, overflow, gpu_only = (
            self.measured[n] for n in ("predictive", "overflow", "gpu-only")
        )
        return {
            "saving": self.saving("predictive") >= SHARE_OF_POSSIBLE * self.possible.saving,
            "bound": ours.metered_cost <= OF_BOUND_MOST * self.bound_cost,
            "overflow": (
                ours.metered_cost <= overflow.metered_cost
                and ours.slo_attainment >= overflow.slo_attainment
            ),
            "attainment": ours.slo_attainment >= gpu_only.slo_attainment - POINTS_LESS,
        }


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
    measured = {}
    for one in POLICIES:
        say(f"{trace}, fleet {name}, seed {seed}: {one}")
        chosen = policy(one)
        measured[one] = measure(simulate(hardware, requests, chosen), hardware, chosen)
    bound = lower_bound(hardware, requests)
    possible = possible_saving(hardware, requests)
    return Cell(trace, name, seed, possible, bound.metered_cost, bound.gpus_limited, measured)


def second_half(arrivals: Sequence[Arrival], minutes: float = math.inf) -> list[Arrival]:
    """Return the requests that were not tuned on, so many minutes of them, from time 0."""
    half = arrivals[len(arrivals) // 2 :]
    first_ms = half[0].at_ms
    return [
        one._replace(at_ms=one.at_ms - first_ms)
        for one in half
        if one.at_ms - first_ms < minutes * 60_000
    ]


def possible_saving(fleet: Fleet, requests: Iterable[Asked]) -> Possible:
    """Return what the arithmetic says of requests on a fleet."""
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
    return Possible(*(math.nan if not total else part / total for part in
                      (eligible, saved, hindsight)))  # fmt: skip


def _is_certain(fleet: Fleet, asked: Asked, pool: int) -> bool:
    """Return whether a pool meets the objective however the run's chance falls, without a queue."""
    if asked.slo_ms is None:
        return True
    slowest = fleet.pools[pool].profile.run_ms(asked.prompt_tokens, asked.output_tokens, 1, 1.0)
    return HOPS_MS + slowest <= asked.slo_ms


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation."""
    known = list(values)
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0


def document_of(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON."""
    return {
        "trace": cell.trace,
        "fleet": cell.fleet,
        "seed": cell.seed,
        "possible": cell.possible._asdict(),
        "bound": cell.bound_cost,
        "gpus_limited": cell.gpus_limited,
        "policies": {
            name: {
                "metered_cost": one.metered_cost,
                "saving": cell.saving(name),
                "slo_attainment": one.slo_attainment,
                "overflow_share": one.overflow_share,
                "latency_ms": {c: p._asdict() for c, p in one.latency_ms.items()},
                "unserved": one.unserved,
            }
            for name, one in cell.measured.items()
        },
        "verdicts": cell.verdicts,
    }


def table_of(cells: Sequence[Cell]) -> str:
    """Return the cells as a Markdown table, a line for each trace and fleet."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for trace, fleet in dict.fromkeys((cell.trace, cell.fleet) for cell in cells):
        of = [cell for cell in cells if (cell.trace, cell.fleet) == (trace, fleet)]
        ours = [cell.measured["predictive"].metered_cost for cell in of]
        line = [
            trace,
            fleet,
            f"{_share(c.possible.saving for c in of)} ({_share(c.possible.hindsight for c in of)})",
            _share(cell.saving("overflow") for cell in of),
            f"**{_share(cell.saving('predictive') for cell in of)}**",
            _share(cell.saving("predictive") / cell.possible.saving for cell in of),
            _share(cost / cell.bound_cost - 1 for cell, cost in zip(of, ours, strict=True)),
            *(_share((c.measured[n].slo_attainment for c in of), digits=2) for n in POLICIES),
            _verdict(of),
        ]
        lines.append(f"| {' | '.join(line)} |")
    return "\n".join(lines) + "\n"


def _share(values: Iterable[float], digits: int = 1) -> str:
    mean, deviation = spread(values)
    return f"{100 * mean:.{digits}f} ± {100 * deviation:.{digits}f} %"


def _verdict(cells: Sequence[Cell]) -> str:
    missed = {name: sum(not one.verdicts[name] for one in cells) for name in cells[0].verdicts}
    said = [f"{name} in {count}" for name, count in missed.items() if count]
    return f"missed: {', '.join(said)} of {len(cells)}" if said else f"met in all {len(cells)}"
