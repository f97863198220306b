"""The least that a fleet can cost which meets a share of objectives, whoever routes.

The program of `bound` with the numbers of nodes as variables: all requests are known, runs may be
split and interrupted, slots never slow each other down. It asks of a fleet what `fleet_search`
asks, and no more: so many objectives met, and what is left at the end done soon after. So no policy
reaches that on a cheaper fleet. Needs the extra `sim`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from lab.savings.choices import Choice, choices_of, open_windows
from lab.savings.fleet_search import ATTAINMENT, owed_most_s
from lab.savings.linear_program import Rows
from lab.simulator.fleet import Fleet
from lab.simulator.workload import Asked
from schemas.errors import OverspillError

WINDOW_S = 5.0
"""Shorter than the bound's: bursts of some seconds are what a fleet has to be large for."""

_Kind = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Windows from arrival to objective, pools, and slot-seconds there of the first pool's."""


def least_fleet_cost(
    fleet: Fleet,
    requests: Sequence[Asked],
    attainment: float = ATTAINMENT,
    *,
    whole_nodes: bool,
    window_s: float = WINDOW_S,
) -> float:
    """Return what all slots of the cheapest fleet of these pools cost a second, in gpu slots.

    Without `whole_nodes` a fleet may have any number of slots, parts of one too.
    """
    return _Program(fleet, requests, attainment, window_s).solve(whole_nodes=whole_nodes)


class _Group:
    """Requests with the same windows and the same ratios of run times, which count as one.

    Attributes:
        slot_s: all their slot-seconds, by pool.
        open_s: for how long they may run, together, by window.
        longest_s: slot-seconds of the longest one, on the first pool.
    """

    def __init__(self, windows: tuple[int, ...], pools: Sequence[int]) -> None:
        self.slot_s = dict.fromkeys(pools, 0.0)
        self.open_s = dict.fromkeys(windows, 0.0)
        self.longest_s = 0.0


class _Program:
    def __init__(
        self, fleet: Fleet, requests: Sequence[Asked], attainment: float, window_s: float
    ) -> None:
        self._fleet, self._window_s = fleet, window_s
        objectives = sum(one.slo_ms is not None for one in requests)
        self._misses_most = int((1 - attainment) * objectives)
        last_s = requests[-1].at_ms / 1000
        self._time_s = last_s + owed_most_s(last_s)
        self._groups: dict[_Kind, _Group] = {}
        for asked in requests:
            choices, in_time = choices_of(fleet, asked)
            if not in_time:
                self._misses_most -= 1
            self._add(asked, choices, due=in_time and asked.slo_ms is not None)

    def _add(self, asked: Asked, choices: Sequence[Choice], *, due: bool) -> None:
        """Add a request; one that is not due may run at any time."""
        open_s = open_windows(asked, self._window_s) if due else {}
        windows = tuple(open_s)
        pools = tuple(one.pool for one in choices)
        ratios = tuple(round(one.slot_s / choices[0].slot_s, 6) for one in choices)
        group = self._groups.setdefault((windows, pools, ratios), _Group(windows, pools))
        for one in choices:
            group.slot_s[one.pool] += one.slot_s
        group.longest_s = max(group.longest_s, choices[0].slot_s)
        for window, seconds in open_s.items():
            group.open_s[window] += seconds

    def solve(self, *, whole_nodes: bool) -> float:
        """Return the least cost; raise OverspillError if no fleet meets so many objectives."""
        rows = Rows()
        price = self._fleet.prices_per_s
        nodes = [
            rows.variable(price[one.name] / one.nodes, whole=whole_nodes)
            for one in self._fleet.pools
        ]
        used: dict[tuple[int, int], list[tuple[int, float]]] = defaultdict(list)
        at_all: dict[int, list[tuple[int, float]]] = defaultdict(list)
        missed: list[tuple[int, float]] = []
        for group in self._groups.values():
            shares = []
            for pool, slot_s in group.slot_s.items():
                for window, open_s in group.open_s.items():
                    part = rows.variable(0.0, min(1.0, open_s / slot_s))
                    used[pool, window].append((part, slot_s))
                    at_all[pool].append((part, slot_s))
                    shares.append((part, 1.0))
                late = rows.variable(0.0, 1.0)
                at_all[pool].append((late, slot_s))
                shares.append((late, 1.0))
                if group.open_s:
                    # A share of the group is so many of its longest requests, or more of others.
                    first_s = next(iter(group.slot_s.values()))
                    missed.append((late, first_s / group.longest_s))
            rows.row(1.0, 1.0, shares)
        for (pool, _), terms in used.items():
            self._hold(rows, terms, nodes[pool], pool, self._window_s)
        for pool, terms in at_all.items():
            self._hold(rows, terms, nodes[pool], pool, self._time_s)
        rows.row(0.0, self._misses_most, missed)
        cost = rows.solve() if self._misses_most >= 0 else None
        if cost is None:
            raise OverspillError("no fleet of these pools meets so many objectives: ask for fewer")
        return cost

    def _hold(
        self, rows: Rows, terms: list[tuple[int, float]], nodes: int, pool: int, time_s: float
    ) -> None:
        """Let a pool run no more in a time than its slots hold."""
        rows.row(-math.inf, 0.0, [*terms, (nodes, -self._fleet.pools[pool].slots * time_s)])
