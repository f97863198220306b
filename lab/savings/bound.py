"""A lower bound: what no schedule can undercut, however much it knows beforehand.

A linear program over the whole trace, solved by HiGHS. Time is cut into windows; each request's run
is spread over pools and over the windows between its arrival and its objective's end, and no pool
runs more in a window than its slots hold. Runs may be split, moved and interrupted, which no real
schedule may; slots run at their fastest, and nothing takes time but runs. So what it costs is at
most what any schedule costs that meets every objective which can be met at all.

It obeys rules 4 and 5 (urgent work runs on gpus) and no others. Needs the extra `sim`.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from lab.savings.choices import Choice, choices_of, open_windows
from lab.savings.linear_program import Rows
from lab.simulator.fleet import Fleet
from lab.simulator.workload import Asked
from schemas.errors import OverspillError
from schemas.pools import ComputeType

WINDOW_S = 30.0
"""Shorter windows bind a little more and take longer to solve."""


class Bound(NamedTuple):
    """What the solver found.

    Attributes:
        metered_cost: in gpu slot-seconds.
        too_late: requests whose objective no pool can meet, even if it were empty.
        variables: size of the program.
        solve_s: time it took.
        gpus_limited: False if the gpus cannot hold what must run there in time: then their slots
            do not limit the bound, which is lower for it.
    """

    metered_cost: float
    too_late: int
    variables: int
    solve_s: float
    gpus_limited: bool


def lower_bound(
    fleet: Fleet, requests: Sequence[Asked], *, window_s: float = WINDOW_S, whole: bool = False
) -> Bound:
    """Return the least that the requests can cost on the fleet.

    `whole`: a request runs on one pool only. Tighter, and slow: for a few hundred requests.
    """
    began = time.perf_counter()
    for limited in (True, False):
        program = _Program(fleet, window_s, gpus_limited=limited, whole=whole)
        for asked in requests:
            program.add(asked)
        cost = program.solve()
        if cost is not None:
            took_s = time.perf_counter() - began
            return Bound(cost, program.too_late, program.variables, took_s, limited)
    raise OverspillError("the program has no solution even with gpu slots without limit: a fault")


class _Group:
    """Requests that arrive in the same window and end in the same ones, with their pools' ratios.

    What one of them runs of another's time changes no cost and no window, so they count as one.
    """

    def __init__(self, choices: Sequence[Choice], windows: tuple[int, ...]) -> None:
        self.windows = windows
        self.pools = [one.pool for one in choices]
        self.slot_s = [0.0 for _ in choices]
        self.cost = [0.0 for _ in choices]
        self.open_s = [0.0 for _ in windows]

    def add(self, choices: Sequence[Choice], open_s: Sequence[float]) -> None:
        for index, one in enumerate(choices):
            self.slot_s[index] += one.slot_s
            self.cost[index] += one.cost
        for index, seconds in enumerate(open_s):
            self.open_s[index] += seconds


class _Program:
    """The linear program. Its variables are shares of a group on a pool in a window."""

    def __init__(self, fleet: Fleet, window_s: float, *, gpus_limited: bool, whole: bool) -> None:
        self.too_late = self.variables = 0
        self._fleet, self._window_s, self._whole = fleet, window_s, whole
        self._limited = [
            gpus_limited or one.compute_type is not ComputeType.GPU for one in fleet.pools
        ]
        self._groups: dict[tuple[object, ...], _Group] = {}
        self._free: list[float] = []

    def add(self, asked: Asked) -> None:
        """Add a request."""
        choices, in_time = choices_of(self._fleet, asked)
        self.too_late += not in_time
        # Without an objective, or past it, work may run after all else, where it is cheapest.
        limited = any(self._limited[one.pool] for one in choices)
        if asked.slo_ms is None or not in_time or not limited:
            self._free.append(min(one.cost for one in choices))
            return
        open_s = open_windows(asked, self._window_s)
        windows = tuple(open_s)
        ratios = tuple(round(one.slot_s / choices[0].slot_s, 6) for one in choices)
        key: tuple[object, ...] = windows, tuple(one.pool for one in choices), ratios
        if self._whole:
            key = (asked.number,)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(choices, windows)
        group.add(choices, tuple(open_s.values()))

    def solve(self) -> float | None:
        """Return the least cost, None if there is no solution."""
        rows = Rows()
        used: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        for group in self._groups.values():
            shares = []
            for index, pool in enumerate(group.pools):
                parts = []
                for number, window in enumerate(group.windows):
                    # One slot a request: in a window it runs no longer than the window is open.
                    most = min(1.0, group.open_s[number] / group.slot_s[index])
                    part = rows.variable(group.cost[index], most)
                    parts.append((part, 1.0))
                    if self._limited[pool]:
                        used[pool, window].append((part, group.slot_s[index]))
                if self._whole:
                    all_of_it = rows.variable(0.0, 1.0, whole=True)
                    rows.row(0.0, 0.0, [*parts, (all_of_it, -1.0)])
                shares += parts
            rows.row(1.0, 1.0, shares)
        for (pool, _), terms in used.items():
            one = self._fleet.pools[pool]
            rows.row(0.0, one.nodes * one.slots * self._window_s, terms)
        self.variables = len(rows.costs)
        cost = rows.solve()
        return None if cost is None else cost + math.fsum(self._free)
