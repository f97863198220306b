"""The lab's plots, as PNG. Needs matplotlib (the extra `sim`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO

import matplotlib as mpl
from matplotlib.figure import Figure

from lab.savings.acceptance import spread
from lab.savings.economics import POLICIES, Cell
from lab.simulator.run import Course, End
from schemas.request import Priority

_WIDE, _LOW = (10.0, 3.6), 110
"""Inches, and dots an inch: readable in a mail."""
mpl.rcParams["svg.hashsalt"] = "lab"


def latencies(courses: Mapping[str, Course]) -> bytes:
    """Draw which share of each class's requests had ended after how long, by policy."""
    figure = Figure(_WIDE)
    for number, priority in enumerate(Priority, 1):
        axes = figure.add_subplot(1, len(Priority), number)
        for name, course in courses.items():
            ended = sorted(
                one.latency_ms / 1000
                for one in course.ended
                if one.end is End.RAN and one.asked.features.priority is priority
            )
            shares = [(rank + 1) / len(ended) for rank in range(len(ended))]
            axes.plot(ended, shares, label=name)
        axes.set(xscale="log", xlabel="s", title=priority.value, ylim=(0, 1))
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("share that has ended")
    figure.axes[0].legend()
    return _png(figure)


def threshold(course: Course) -> bytes:
    """Draw both queue depths and the threshold, second by second."""
    figure = Figure(_WIDE)
    axes = figure.add_subplot()
    at_s = [second.at_s for second in course.seconds]
    axes.plot(at_s, [second.gpu_depth for second in course.seconds], label="gpu depth")
    axes.plot(at_s, [second.cpu_depth for second in course.seconds], label="cpu depth")
    axes.plot(at_s, [second.threshold for second in course.seconds], label="threshold", color="k")
    axes.set(xlabel="s", ylabel="requests", yscale="symlog")
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def savings(cells: Sequence[Cell]) -> bytes:
    """Draw what is possible, what policies save and what the bound allows, by trace and fleet."""
    figure = Figure(_WIDE)
    axes = figure.add_subplot()
    places = list(dict.fromkeys((cell.trace, cell.fleet) for cell in cells))
    bars: dict[str, Callable[[Cell], float | None]] = {
        "overflow": lambda cell: cell.saving(cell.measured["overflow"].metered_cost),
        "predictive": lambda cell: cell.saving(cell.ours.metered_cost),
        "possible": lambda cell: cell.possible.saving,
        "bound": lambda cell: cell.saving(cell.bound.metered_cost),
    }
    for number, (name, of) in enumerate(bars.items()):
        known = [
            spread(
                math.nan if (share := of(cell)) is None else 100 * share  # no bar is drawn for it
                for cell in cells
                if (cell.trace, cell.fleet) == place
            )
            for place in places
        ]
        left = [place + 0.2 * (number - 1.5) for place in range(len(places))]
        means, deviations = zip(*known, strict=True)
        axes.bar(left, means, 0.19, yerr=deviations, label=name)
    axes.set_xticks(range(len(places)), [f"{trace}\n{fleet}" for trace, fleet in places])
    axes.set_ylabel("% of gpu-only's metered cost saved")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return _png(figure)


def frontier(points: Mapping[str, Sequence[tuple[float, float]]]) -> bytes:
    """Draw cost against objectives missed: (metered cost of gpu-only's, share met) by policy."""
    figure = Figure((6.0, 4.0))
    axes = figure.add_subplot()
    for name, known in points.items():
        axes.plot([cost for cost, _ in known], [100 * met for _, met in known], "o", label=name)
    axes.set(xlabel="metered cost, of gpu-only's", ylabel="objectives met, %")
    axes.grid(alpha=0.3)
    axes.legend()
    return _png(figure)


def frontier_of(cells: Sequence[Cell]) -> dict[str, list[tuple[float, float]]]:
    """Return each cell's point, by policy; none of a cell whose gpus ran nothing."""
    return {
        name: [
            (1 - saving, one.slo_attainment)
            for cell in cells
            for one in (cell.measured[name],)
            if (saving := cell.saving(one.metered_cost)) is not None
        ]
        for name in POLICIES
    }


def _png(figure: Figure) -> bytes:
    figure.tight_layout()
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=_LOW, metadata={"Software": None})
    return drawn.getvalue()
