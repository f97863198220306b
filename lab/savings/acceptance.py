"""What is asked of `predictive`, and whether it holds, as tables of all traces and fleets.

A number may be missed only where the offline bound misses it as well, and the tables say so.
Pure: it judges cells, and simulates nothing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lab.savings.economics import POLICIES, Cell
from lab.savings.fleet_costs import YIELDING, FleetCosts
from lab.savings.fleet_search import ATTAINMENT, Found
from lab.tables import Table

SHARE_OF_POSSIBLE, OF_BOUND_MOST, POINTS_LESS, OF_GPU_ONLY_MOST = 0.9, 1.25, 0.005, 0.75
"""Of the possible saving, the bound's cost, objectives met (a share), `gpu-only`'s fleet cost: what
the project set itself (docs/policy.md)."""


class Criterion(NamedTuple):
    """One number that is asked, and whether a cell holds it: our policy's, and the bound's.

    Attributes:
        ours: None if it cannot be known.
        of_bursts: asked on the trace that is burstiest, and told of the others.
    """

    asked: str
    ours: Callable[[Cell], bool | None]
    bound: Callable[[Cell], bool | None]
    of_bursts: bool = False


def _saves(cell: Cell, metered_cost: float) -> bool | None:
    saving = cell.saving(metered_cost)
    return None if saving is None else saving >= SHARE_OF_POSSIBLE * cell.possible.saving


def _beats_overflow(cell: Cell, metered_cost: float, attainment: float) -> bool:
    overflow = cell.measured["overflow"]
    return metered_cost <= overflow.metered_cost and attainment >= overflow.slo_attainment


def _is_in_time(cell: Cell, attainment: float) -> bool:
    return attainment >= cell.measured["gpu-only"].slo_attainment - POINTS_LESS


def _is_small(cell: Cell, cost_per_s: float) -> bool:
    share = cell.fleets.of_gpu_only(cost_per_s)
    return share is None or share <= OF_GPU_ONLY_MOST


CRITERIA = (
    Criterion(
        "metered saving at least 0.9 of the possible",
        lambda cell: _saves(cell, cell.ours.metered_cost),
        lambda cell: _saves(cell, cell.bound.metered_cost),
    ),
    Criterion(
        "metered cost at most 25 % above the bound",
        lambda cell: cell.ours.metered_cost <= OF_BOUND_MOST * cell.bound.metered_cost,
        lambda _: True,
    ),
    Criterion(
        "no dearer than `overflow` at no fewer objectives met",
        lambda cell: _beats_overflow(cell, cell.ours.metered_cost, cell.ours.slo_attainment),
        lambda cell: _beats_overflow(cell, cell.bound.metered_cost, cell.bound.attainment),
    ),
    Criterion(
        "objectives met: at most 0.5 points below `gpu-only`",
        lambda cell: _is_in_time(cell, cell.ours.slo_attainment),
        lambda cell: _is_in_time(cell, cell.bound.attainment),
    ),
    Criterion(
        "fleet cost at most 0.75 of `gpu-only`'s on the bursty trace",
        lambda cell: cell.fleets.ours is not None and _is_small(cell, cell.fleets.ours.cost_per_s),
        lambda cell: _is_small(cell, cell.fleets.least.nodes),
        of_bursts=True,
    ),
)


def acceptance(cells: Sequence[Cell]) -> list[Table]:
    """Return the tables: what is asked, metered cost, fleet cost, the fleets."""
    places = list(dict.fromkeys((cell.trace, cell.fleet) for cell in cells))
    rows = [[cell for cell in cells if (cell.trace, cell.fleet) == place] for place in places]
    every = [cell for of in rows for cell in of]
    return [_asked(rows), _metered(rows), _owned(rows), _fleets(every)]


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return mean and sample standard deviation."""
    known = list(values)
    return statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else 0.0


def _metered(rows: Sequence[Sequence[Cell]]) -> Table:
    return Table(
        "Metered cost",
        "Busy slots only, as shares of what `gpu-only` costs on the same requests; mean and "
        "standard deviation over seeds, on the half of each trace that nothing was tuned on.",
        (
            "trace", "fleet", "possible", "known afterwards", "saved: bound", "`overflow`",
            "`predictive`", "of the possible", "above the bound", "`overflow` above the bound",
            *(f"objectives met: `{name}`" for name in POLICIES), "can be met",
        ),
        [
            (
                of[0].trace,
                of[0].fleet,
                _share(c.possible.saving for c in of),
                _share(c.possible.hindsight for c in of),
                _share(c.saving(c.bound.metered_cost) for c in of),
                _share(c.saving(c.measured["overflow"].metered_cost) for c in of),
                _share(c.saving(c.ours.metered_cost) for c in of),
                _share(_of(c.saving(c.ours.metered_cost), c.possible.saving) for c in of),
                *(
                    _share(c.measured[name].metered_cost / c.bound.metered_cost - 1 for c in of)
                    for name in ("predictive", "overflow")
                ),
                *(_share((c.measured[n].slo_attainment for c in of), 2) for n in POLICIES),
                _share((c.bound.attainment for c in of), 2),
            )
            for of in rows
        ],
    )  # fmt: skip


def _owned(rows: Sequence[Sequence[Cell]]) -> Table:
    return Table(
        f"Fleet cost for {ATTAINMENT:.0%} of objectives",
        "All slots, busy or not, in gpu slots; nothing of it is in metered cost. What is left at "
        "the end keeps no pool busy for more than a tenth of the time, or two minutes. "
        "*Yielding* is `gpu-only` if it left last slots to others as `predictive` does, which has "
        "the better of two patiences, an hour or a minute. Bounds know all requests beforehand; "
        "below them nobody can do. Bursts: the most work in 3 s, in means.",
        (
            "trace", "bursts", "fleet", "`gpu-only`", "yielding", "`predictive`", "of `gpu-only`'s",
            "bound", "of `gpu-only`'s", "bound of gpus alone", "bound in parts of slots",
            "of gpus alone",
        ),
        [
            (
                of[0].trace,
                f"{of[0].burstiness:.1f}",
                of[0].fleet,
                _slots(_cost(c.fleets.found["gpu-only"]) for c in of),
                _slots(_cost(c.fleets.found[YIELDING]) for c in of),
                _slots(_cost(c.fleets.ours) for c in of),
                _of_gpu_only(of, lambda c: _cost(c.fleets.ours)),
                _slots(c.fleets.least.nodes for c in of),
                _of_gpu_only(of, lambda c: c.fleets.least.nodes),
                _slots(c.fleets.least_gpus.nodes for c in of),
                _slots(c.fleets.least.slots for c in of),
                _slots(c.fleets.least_gpus.slots for c in of),
            )
            for of in rows
        ],
    )  # fmt: skip


def _fleets(cells: Sequence[Cell]) -> Table:
    return Table(
        "Which fleets these are",
        "Nodes of each pool, and what all their slots cost.",
        (
            "trace",
            "fleet",
            "seed",
            "`gpu-only`",
            "yielding",
            "`predictive`",
            "of `gpu-only`'s",
            "bound",
        ),
        [
            (
                cell.trace,
                cell.fleet,
                str(cell.seed),
                _said(cell.fleets.found["gpu-only"]),
                _said(cell.fleets.found[YIELDING]),
                _said(cell.fleets.ours),
                _percent(cell.fleets, _cost(cell.fleets.ours)),
                f"{cell.fleets.least.nodes:.1f}",
            )
            for cell in cells
        ],
    )


def _asked(rows: Sequence[Sequence[Cell]]) -> Table:
    bursty = max((of[0] for of in rows), key=lambda cell: cell.burstiness).trace
    return Table(
        "What is asked",
        "For how many seeds it holds. A number may be missed only where the bound misses it too.",
        ("trace", "fleet", *(one.asked for one in CRITERIA)),
        [
            (
                of[0].trace,
                of[0].fleet,
                *(
                    _verdict(one, of, asked=of[0].trace == bursty or not one.of_bursts)
                    for one in CRITERIA
                ),
            )
            for of in rows
        ],
    )


def _verdict(criterion: Criterion, cells: Sequence[Cell], *, asked: bool) -> str:
    known = [cell for cell in cells if criterion.ours(cell) is not None]
    missed = [cell for cell in known if not criterion.ours(cell)]
    bound_too = sum(not criterion.bound(cell) for cell in missed)
    said = f"holds in all {len(known)}"
    if missed:
        said = f"**missed** in {len(missed)} of {len(known)}"
        if bound_too == len(missed):
            said = f"missed in {len(missed)} of {len(known)}, by the bound as well"
        elif bound_too:
            said += f", in {bound_too} by the bound as well"
    if unknown := len(cells) - len(known):
        said = f"{said}, unknown in {unknown}" if known else f"unknown in {unknown}"
    return said if asked else f"(not asked: {said.replace('*', '')})"


def _cost(found: Found | None) -> float | None:
    return found and found.cost_per_s


def _said(found: Found | None) -> str:
    if found is None:
        return "none found"
    nodes = ", ".join(f"{count} {pool}" for pool, count in found.nodes.items() if count)
    return f"{nodes}: {found.cost_per_s:.1f}"


def _of_gpu_only(cells: Sequence[Cell], cost_of: Callable[[Cell], float | None]) -> str:
    shares = [cell.fleets.of_gpu_only(cost) if (cost := cost_of(cell)) else None for cell in cells]
    return _share(shares, unknown="none found")


def _percent(fleets: FleetCosts, cost: float | None) -> str:
    share = cost and fleets.of_gpu_only(cost)
    return f"{share:.0%}" if share else ""


def _slots(costs: Iterable[float | None]) -> str:
    found = _all_known(costs)
    if found is None:
        return "none found"
    mean, deviation = spread(found)
    return f"{mean:.1f} ± {deviation:.1f}"


def _of(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else part / whole


def _share(values: Iterable[float | None], digits: int = 1, unknown: str = "-") -> str:
    known = _all_known(values)
    if known is None:
        return unknown
    mean, deviation = spread(known)
    return f"{100 * mean:.{digits}f} ± {100 * deviation:.{digits}f} %"


def _all_known(values: Iterable[float | None]) -> list[float] | None:
    """Return the values, None if one is missing: a mean of the others would look like all of it."""
    every = list(values)
    known = [one for one in every if one is not None]
    return known if len(known) == len(every) else None
