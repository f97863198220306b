"""Offer and Offers: what each pool can do for one request; the rules read nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from schemas.outcomes import Reason
from schemas.pools import CPU, GPU, GPU_TP, NPU
from streams.policy.node import Node, mean_latency_ms
from streams.policy.pool import PoolView

_RANK = attrgetter("rank")

NOW = 0
"""`opens_at_ms` of a pool that takes the request now."""
UNKNOWN_WHEN = inf
"""`opens_at_ms` of a pool that is down."""


class Offer:
    """One pool, seen by one request.

    Attributes:
        nodes: live ones that can take this request, in this router's order of preference.
        opens_at_ms: NOW; the epoch ms at which the first refusal lapses; or UNKNOWN_WHEN.
    """

    __slots__ = ("_fastest", "_latency_ms", "_listed", "_loads", "nodes", "opens_at_ms", "pool")

    def __init__(self, pool: PoolView, nodes: list[Node], opens_at_ms: float = NOW) -> None:
        self.pool = pool
        self.nodes = sorted(nodes, key=_RANK)
        self.opens_at_ms = opens_at_ms
        self._listed = nodes
        self._loads, self._latency_ms, self._fastest = -1, 0.0, 1.0

    @property
    def latency_ms(self) -> float:
        """Return the nodes' mean latency; 0 without any."""
        if self._loads != self.pool.loads:
            self._hear()
        return self._latency_ms

    @property
    def fastest(self) -> float:
        """Return the least slowness of the nodes; 1 without any."""
        if self._loads != self.pool.loads:
            self._hear()
        return self._fastest

    def _hear(self) -> None:
        """Read the nodes' reports: an offer outlives the snapshot that it was made from."""
        self._loads, self._latency_ms = self.pool.loads, mean_latency_ms(self._listed)
        self._fastest = min((node.slowness for node in self.nodes), default=1.0)

    def has_free_slot(self) -> bool:
        """Return whether one of the nodes could start the request at once."""
        if not self.pool.free_nodes:
            return False
        # A loop, not any(): this runs for every request that overflows, and a generator costs more.
        for node in self.nodes:  # noqa: SIM110
            if node.free_slots > 0:
                return True
        return False

    def meets(self, slo_ms: float | None) -> bool:
        """Return whether the mean latency is within the objective, if there is one."""
        return slo_ms is None or self.latency_ms <= slo_ms


@dataclass(frozen=True, slots=True)  # made rarely, read for every request: no named tuple
class Offers:
    """All pools, seen by one request.

    Attributes:
        by_pool: by pool, cheapest first: its offer, or why it is excluded.
        open: offers that take the request now, cheapest first, without `gpu-tp`.
        aside: pools that are down or whose nodes all refused it for a while, cheapest first.
        gpu, cpu, npu, gpu_tp: the pool of that name if it is open.
        excluded: pool -> why.
        small: the model is known to have under a billion parameters.
    """

    by_pool: Mapping[str, Offer | str]
    open: Sequence[Offer]
    aside: Sequence[Offer]
    gpu: Offer | None
    cpu: Offer | None
    npu: Offer | None
    gpu_tp: Offer | None
    excluded: Mapping[str, str]
    small: bool

    @staticmethod
    def of(by_pool: Mapping[str, Offer | str], *, small: bool) -> Offers:
        """Return what the pools' offers and exclusions come to."""
        offers = [offer for offer in by_pool.values() if not isinstance(offer, str)]
        now = {offer.pool.name: offer for offer in offers if offer.opens_at_ms == NOW}
        gpu_tp = now.pop(GPU_TP, None)  # it has a rule of its own: nothing overflows to it,
        return Offers(
            by_pool,
            list(now.values()),
            # ... and nothing waits for it.
            [o for o in offers if o.opens_at_ms != NOW and o.pool.name != GPU_TP],
            now.get(GPU),
            now.get(CPU),
            now.get(NPU),
            gpu_tp,
            {name: why for name, why in by_pool.items() if isinstance(why, str)},
            small,
        )

    def named(self, pool: str) -> Offer | None:
        """Return the pool's offer, open or aside; None if it is excluded or not configured."""
        offer = self.by_pool.get(pool)
        return None if isinstance(offer, str) else offer


Choice = tuple[Offer, Reason, Node | None]
"""A pool, why, and the node if choosing the pool has found it already."""
