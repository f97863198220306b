"""The smallest fleet that reaches an attainment: what a policy saves where all slots are paid for.

Metered cost counts busy slots, fleet cost counts all of them; they are never added up. Searched are
the numbers of nodes of each pool, cheapest fleet first where one is known to do. More nodes never
do worse here: that is assumed, and what makes the search short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lab.savings.choices import fastest_ms, is_urgent
from lab.simulator.fleet import Fleet
from lab.simulator.run import Course, End, Ended, simulate
from lab.simulator.workload import Asked
from schemas.pools import GPU
from streams.policy import Policy
from streams.policy.baselines import gpu_only

ATTAINMENT = 0.99
GPU_NODES_MAX = 16
OTHER_NODES_MAX = 16
"""Of each other pool: beyond it a fleet file with larger nodes says the same."""
OWED_MOST, OWED_S = 0.1, 120.0
"""Of the trace's time, or two minutes, which a single run may take: work that is left at its end
must not keep any pool busy for longer, or a fleet would do that only ever puts off."""

_ROUNDED = 1e-6
"""A solver's cost and a sum of prices may differ by so much and mean the same."""


class Found(NamedTuple):
    """The cheapest fleet found.

    Attributes:
        nodes: by pool.
        cost_per_s: of all its slots, busy or not, in gpu slot-seconds.
        attainment: of objectives on it.
        tried: fleets that were simulated.
    """

    nodes: dict[str, int]
    cost_per_s: float
    attainment: float
    tried: int


def smallest_fleet(
    fleet: Fleet,
    requests: Sequence[Asked],
    policy: Policy,
    attainment: float = ATTAINMENT,
    say: Callable[[str], None] = lambda _: None,
    *,
    bound: float = 0.0,
) -> Found | None:
    """Return the cheapest fleet of these pools on which the policy reaches the attainment.

    None if not even the largest one that is looked at does. Fleets below the bound, a cost that no
    fleet of whole nodes undercuts, are not tried.
    """
    search = _Search(fleet, requests, policy, attainment, say)
    best: Found | None = None
    for nodes, cost in search.candidates():
        if cost < bound * (1 - _ROUNDED) or (best is not None and cost >= best.cost_per_s):
            continue
        reached = search.reaches(nodes)
        if reached is not None:
            best = Found(nodes, cost, reached, 0)
    return None if best is None else best._replace(tried=search.tried)


class _Search:
    def __init__(
        self,
        fleet: Fleet,
        requests: Sequence[Asked],
        policy: Policy,
        attainment: float,
        say: Callable[[str], None],
    ) -> None:
        self.tried = 0
        self._fleet, self._requests, self._policy, self._say = fleet, requests, policy, say
        self._others = [one.name for one in fleet.pools if one.name != GPU]
        self._only_gpus = policy.choose is gpu_only
        objectives = sum(one.slo_ms is not None for one in requests)
        self._misses_most = int((1 - attainment) * objectives)
        self._objectives = objectives
        self._failed: list[dict[str, int]] = []
        self._last_s = requests[-1].at_ms / 1000
        self._owed_most_s = owed_most_s(self._last_s)
        self._work_s = {
            one.name: sum(fastest_ms(one, asked) for asked in requests) / 1000
            for one in fleet.pools
        }
        self._urgent_s = sum(
            fastest_ms(one, asked) / 1000
            for one in fleet.pools
            if one.name == GPU
            for asked in requests
            if is_urgent(asked)
        )

    def candidates(self) -> Iterator[tuple[dict[str, int], float]]:
        """Yield fleets to try, in order of cost; those that hold no more than a failed one not."""
        sizes = [1] if self._only_gpus or not self._others else range(OTHER_NODES_MAX + 1)
        every: list[dict[str, int]] = []
        for gpus in range(1, GPU_NODES_MAX + 1):
            some = [{GPU: gpus}]
            for name in self._others:
                counts = [0] if self._only_gpus else sizes
                some = [{**one, name: count} for one in some for count in counts]
            every += some
        for nodes in sorted(filter(self._holds, every), key=self.cost_of):
            if not any(all(nodes[n] <= one[n] for n in nodes) for one in self._failed):
                yield nodes, self.cost_of(nodes)

    def _holds(self, nodes: dict[str, int]) -> bool:
        """Return whether all slots together could do the work in the time there is."""
        time_s = self._last_s + self._owed_most_s
        slots_s = {one.name: nodes[one.name] * one.slots * time_s for one in self._fleet.pools}
        done = sum(slots_s[name] / work_s for name, work_s in self._work_s.items() if work_s)
        return done >= 1.0 and slots_s[GPU] >= self._urgent_s

    def cost_of(self, nodes: dict[str, int]) -> float:
        return self._sized(nodes, check=False)[1]

    def reaches(self, nodes: dict[str, int]) -> float | None:
        """Return the attainment if it is enough, else None."""
        self.tried += 1
        fleet, _ = self._sized(nodes)
        self._say(f"{self._policy.name}: {nodes}")
        course = simulate(fleet, self._requests, self._policy, hopeless=self._hopeless)
        missed = _missed(course.ended)
        if (
            len(course.ended) < len(self._requests)
            or missed > self._misses_most
            or owed_s(fleet, course) > self._owed_most_s
        ):
            self._failed.append(nodes)
            return None
        return 1 - missed / self._objectives if self._objectives else 1.0

    def _sized(self, nodes: dict[str, int], *, check: bool = True) -> tuple[Fleet, float]:
        pools = tuple(
            one.model_copy(update={"nodes": nodes[one.name]})
            for one in self._fleet.pools
            if nodes[one.name]
        )
        # The timetable names nodes that may not be there.
        sized = Fleet(pools=pools, delays=self._fleet.delays) if check else self._fleet
        price = {
            one.name: priced.cost_coefficient * one.slots
            for one, priced in zip(self._fleet.pools, self._fleet.priced, strict=True)
        }
        return sized, sum(price[name] * count for name, count in nodes.items())

    def _hopeless(self, ended: Sequence[Ended]) -> bool:
        return _missed(ended) > self._misses_most


def owed_most_s(last_s: float) -> float:
    """Return for how long work may go on after the last arrival, at that time."""
    return max(OWED_S, OWED_MOST * last_s)


def owed_s(fleet: Fleet, course: Course) -> float:
    """Return how long what is left after the last arrival keeps a pool busy, the busiest one."""
    last_ms = max(one.asked.at_ms for one in course.ended)
    left_ms = {one.name: 0.0 for one in fleet.pools}
    for one in course.ended:
        if one.end is End.RAN:
            end_ms = one.asked.at_ms + one.latency_ms
            left_ms[one.pool] += max(0.0, end_ms - max(one.started_ms, last_ms))
    slots = {one.name: one.nodes * one.slots for one in fleet.pools}
    return max(left_ms[name] / slots[name] for name in left_ms) / 1000


def _missed(ended: Sequence[Ended]) -> int:
    return sum(
        one.asked.slo_ms is not None
        and (one.end is not End.RAN or one.latency_ms > one.asked.slo_ms)
        for one in ended
    )
