"""View: all a policy knows of the fleet when it decides.

It is made from values only (a snapshot, what this router has routed beyond it, its age), so the
same values make the same view, here and in a replay. It reads no clock: the age is an argument.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from schemas.control import ModelRecord
from schemas.outcomes import Mode
from schemas.pools import Pool, by_cost, check_pools
from streams.policy import threshold
from streams.policy.decision import Decision
from streams.policy.estimates import Estimates
from streams.policy.offers import Offers
from streams.policy.pool import PoolView
from streams.policy.told import NodeTold, SnapshotTold


class View:
    """What a router believes now; one for each router process.

    Attributes:
        mode: how much is known; blind until the owner says otherwise.
        threshold: of the snapshot.
        bindings: conversation -> (pool, node); belongs to the router, which sets it for a batch.
        models: the registry, by name.
        configured: the pools as configured, cheapest first.
        pools: by name, cheapest first.
        offers_by_model: what the pools offer a plain request; kept by `compatibility`.
    """

    def __init__(
        self, pools: tuple[Pool, ...], router_id: str, partitions: Mapping[str, int]
    ) -> None:
        self.mode = Mode.BLIND
        self.threshold = threshold.START
        self.bindings: Mapping[str, tuple[str, str]] = MappingProxyType({})
        self.models: Mapping[str, ModelRecord] = MappingProxyType({})
        self.configured = by_cost(check_pools(pools))
        self._router_id = router_id
        self.pools = {
            pool.name: PoolView(pool, router_id, partitions[pool.name]) for pool in self.configured
        }
        self.offers_by_model: dict[str, Offers] = {}

    def widen(self, partitions: Mapping[str, int]) -> None:
        """Know so many partitions of each pool from now on; nothing is believed until `load`."""
        for pool in self.configured:
            self.pools[pool.name] = PoolView(pool, self._router_id, partitions[pool.name])
        self.offers_by_model.clear()

    def widths(self) -> tuple[tuple[str, int], ...]:
        """Return how many partitions of each pool it knows."""
        return tuple((name, len(pool.unfinished)) for name, pool in self.pools.items())

    def load_models(self, models: Mapping[str, ModelRecord]) -> None:
        """Replace the registry."""
        self.models = models
        self.offers_by_model.clear()

    def load(
        self, snapshot: SnapshotTold, own: Mapping[tuple[str, int], int], age_ms: float = 0.0
    ) -> None:
        """Replace what is believed by a snapshot whose counts were read `age_ms` ago.

        `own` holds the records by (pool, partition) that this router has routed and the snapshot
        does not include. Call it for every new snapshot, and to roll back what was added.
        """
        self.threshold = snapshot.threshold
        nodes: dict[str, list[NodeTold]] = {name: [] for name in self.pools}
        for node in snapshot.nodes:
            of_pool = nodes.get(node.pool)
            if of_pool is not None:
                of_pool.append(node)
        service, states = snapshot.service, snapshot.pools
        changed = False
        for name, pool in self.pools.items():
            told = service.get(pool.compute_type, ())
            if told is not pool.estimates.told:
                pool.estimates = Estimates(told)
            changed |= pool.load(states.get(name), nodes[name], own, age_ms)
        if changed:
            self.offers_by_model.clear()

    def advance(self, age_ms: float) -> None:
        """Estimate the loads `age_ms` after the snapshot's counts were read; once a batch."""
        for pool in self.pools.values():
            pool.advance(age_ms)

    def add(self, decision: Decision) -> None:
        """Count a decision that was taken; of those that route nothing, nothing."""
        if decision.pool is not None:
            self.pools[decision.pool].add(decision.partition)

    def pool(self, name: str) -> PoolView:
        """Return one pool's view; raise KeyError if it is not configured."""
        return self.pools[name]

    def assume(self, *, queue_depth: Mapping[str, float], down: Collection[str]) -> None:
        """Replace queue depths, and which pools are down, by what is stated; until the next load.

        A what-if states them where a router derives them.
        """
        for name, pool in self.pools.items():
            pool.queue_depth = queue_depth.get(name, pool.queue_depth)
            pool.down = name in down
        self.offers_by_model.clear()
