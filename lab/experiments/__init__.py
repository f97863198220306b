"""The source article's claims, and what this policy's own assumptions cost, as experiments.

Each is a function that runs the simulator on a slice of a trace and returns a table. Numbers depend
on the trace, the fleet and the seed given, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.experiments.conversations import stickiness
from lab.experiments.moved import batch_moved
from lab.experiments.optimum import greedy_and_optimum
from lab.experiments.planning import estimates, patience
from lab.experiments.rules import special_rules, strict_objectives, thresholds
from lab.experiments.setting import Setting
from lab.tables import Table

ALL: tuple[Callable[[Setting], Table], ...] = (
    batch_moved,
    greedy_and_optimum,
    thresholds,
    special_rules,
    strict_objectives,
    stickiness,
    estimates,
    patience,
)
