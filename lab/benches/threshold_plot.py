"""Draws what `bench_threshold` found: both depths and the threshold over time, a column a fleet.

The only file of the benchmarks that needs matplotlib (extra `sim`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from lab.benches.threshold import CAPACITY, HIGH, STEPS_S, Answer

GPU_COLOR, CPU_COLOR = "tab:blue", "tab:orange"
LINEAR_TO = 50
"""Records; where a queue grows longer, the axis is logarithmic beyond 10."""
STYLES = ("--", "-")
"""Of the controllers, in the order of the answers."""


def plot_threshold(answers: Sequence[Answer], file: Path) -> None:
    """Write the plot; the file's suffix says as what. The same answers give the same bytes."""
    fleets = [(name, list(group)) for name, group in itertools.groupby(answers, lambda a: a.fleet)]
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(2, len(fleets), sharex=True, squeeze=False)
    for column, (name, group) in enumerate(fleets):
        depths, thresholds = axes[0][column], axes[1][column]
        depths.set_title(name, fontsize=10)
        for answer, style in zip(group, STYLES, strict=False):
            at_s = [second.at_s for second in answer.course]
            gpu = [second.gpu_depth for second in answer.course]
            cpu = [second.cpu_depth for second in answer.course]
            known = f"{answer.controller}: "
            depths.plot(at_s, gpu, style, color=GPU_COLOR, lw=0.9, label=f"{known}gpu queue")
            depths.plot(at_s, cpu, style, color=CPU_COLOR, lw=0.9, label=f"{known}cpu queue")
            value = [second.threshold for second in answer.course]
            thresholds.plot(at_s, value, style, color="black", lw=1.2, label=answer.controller)
        thresholds.set_xlabel("seconds")
        for axis in (depths, thresholds):
            if axis.dataLim.y1 > LINEAR_TO:
                axis.set_yscale("symlog", linthresh=10)
            axis.set_ylim(bottom=0)
            axis.axvspan(*STEPS_S[:2], color="0.92", zorder=0)
            axis.legend(fontsize=7)
    axes[0][0].set_ylabel("records waiting")
    axes[1][0].set_ylabel("threshold")
    load = f"grey: {HIGH:g}x the gpus' {CAPACITY:g} requests/s"
    figure.suptitle(f"The threshold's controllers at a step of the load ({load})", fontsize=11)
    with mpl.rc_context({"svg.hashsalt": "overspill", "svg.fonttype": "none"}):
        figure.savefig(file, dpi=100, metadata={"Date": None} if file.suffix == ".svg" else None)
