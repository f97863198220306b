"""What policies need to own, beside what nobody can undercut: one trace, fleet and seed.

Fleet cost counts all slots, busy or not, and is never added to metered cost. Needs the extra `sim`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from lab.savings.fleet_bound import least_fleet_cost
from lab.savings.fleet_search import Found, smallest_fleet
from lab.simulator.fleet import Fleet
from lab.simulator.workload import Asked
from schemas.pools import GPU
from streams.policy import Policy, policy

OURS = ("predictive", "predictive/60")
"""Who owns all slots may gain nothing by an hour's patience."""
YIELDING = "gpu-only, yielding"
"""`gpu-only` where requests yield last slots as `predictive` says: what that alone saves."""
SEARCHED = ("gpu-only", YIELDING, *OURS)


class Least(NamedTuple):
    """What no fleet undercuts whoever routes: in whole nodes, and in parts of slots."""

    nodes: float
    slots: float


class FleetCosts(NamedTuple):
    """The cheapest fleets for 99 % of objectives; costs of all slots a second, in gpu slots.

    Attributes:
        found: by policy; None if no fleet that was looked at does.
        least: whoever routes.
        least_gpus: the same of fleets that are all gpus.
    """

    found: Mapping[str, Found | None]
    least: Least
    least_gpus: Least

    @property
    def ours(self) -> Found | None:
        """Return the cheapest fleet of `predictive`, whatever its patience."""
        known = [one for name in OURS if (one := self.found[name])]
        return min(known, key=lambda one: one.cost_per_s, default=None)

    def of_gpu_only(self, cost_per_s: float) -> float | None:
        """Return a cost as share of `gpu-only`'s; None if that has no fleet."""
        gpus = self.found["gpu-only"]
        return cost_per_s / gpus.cost_per_s if gpus else None


def fleet_costs(fleet: Fleet, requests: Sequence[Asked], say: Callable[[str], None]) -> FleetCosts:
    """Return the cheapest fleets of these pools, and of their gpus alone, for the requests."""
    gpus = tuple(one for one in fleet.pools if one.name == GPU)
    least, least_gpus = (
        Least(*(least_fleet_cost(pools, requests, whole_nodes=whole) for whole in (True, False)))
        for pools in (fleet, Fleet(pools=gpus, delays=fleet.delays))
    )
    found = {
        name: smallest_fleet(fleet, requests, _policy(name), say=say, bound=least.nodes)
        for name in SEARCHED
    }
    return FleetCosts(found, least, least_gpus)


def _policy(name: str) -> Policy:
    if name == YIELDING:
        return replace(policy("gpu-only"), name=name, yields=policy("predictive").yields)
    return policy(name)
