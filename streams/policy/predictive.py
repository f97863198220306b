"""The `predictive` policy: the cheapest pool, by the request, that will meet its objective.

For each pool: what the request will cost there (coefficient x expected run), and when it will have
ended there: what waits ahead of it, then its own run. Rules 1 to 5 hold for every policy and are in
`rules`; this replaces rules 6 to 10, `waits` chooses nodes. docs/policy.md has the formulas and a
worked example.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import NamedTuple

from schemas.features import Features
from schemas.outcomes import Reason
from schemas.request import Priority
from streams.policy.estimates import NOTHING_RAN, Estimate, kind_of, unmeasured
from streams.policy.node import Node
from streams.policy.offers import Choice, Offer, Offers
from streams.policy.waits import HOP_MS, PATIENT, class_of, place_to_rest, soonest, wait_of
from streams.policy.yielding import yields_ms

PATIENCE_S = 3600.0
"""How long batch without an objective may wait for cheap capacity, unless the name says."""
TURNS_MARGIN = 1.45
"""A conversation keeps its compute type, so the first turn must leave room for longer ones."""
TURNS_WAIT = 2.0
"""... and for finding all slots taken: so many times the mean wait for one of them to come free,
its mean and once its spread."""
EXPLORE_RUNS = 4
"""With fewer runs behind an estimate a try is worth it to work that nobody waits for."""
EXPLORE_ONE_IN = 16
"""Of the requests that may, so many try a pool that is little known."""
_EXPLORE_SHIFT = 20
"""Lower bits of the key's hash choose partitions."""
_BATCH = Priority.BATCH


class Prospect(NamedTuple):
    """One pool, as it would be for this request.

    Attributes:
        node: where it would go; None if no live node takes it.
        runs: behind the estimate of its run.
        cost: expected, in gpu slot-seconds.
        wait_ms: expected until a slot is free on the node it would go to; 0 if one is.
        soon_ms: expected until it has ended.
        late_ms: until it has ended, if wait and run go badly.
    """

    offer: Offer
    node: Node | None
    runs: int
    cost: float
    wait_ms: float
    soon_ms: float
    late_ms: float


_LATE = attrgetter("late_ms")
_PRICE = attrgetter("offer.pool.cost_coefficient")


class Predictive:
    """The policy's two choices, for a patience.

    Attributes:
        patience_ms: how long batch without an objective may wait for cheap capacity.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_ms = patience_s * 1000

    def choose(self, features: Features, offers: Offers, _threshold: int) -> Choice:
        """Return the cheapest pool that will do; where none will, the one where it ends first."""
        prospects: Iterable[Prospect] = self._by_cost(features, offers.open)
        if _may_explore(features):
            prospects = list(prospects)
            tried = _explored(features, prospects)
            if tried is not None:
                return tried.offer, Reason.EXPLORING, tried.node
        # Where nothing has run, the means are those of self-tests, and work that says how large it
        # is may be a hundred times as long: what somebody waits for does not go by them.
        must_know = features.gflops and features.priority is not _BATCH
        seen = []
        for one in prospects:
            seen.append(one)
            if (one.runs != NOTHING_RAN or not must_know) and self._does(features, one):
                waits = one.wait_ms > 0.0 and _is_patient(features)
                return one.offer, Reason.PATIENT if waits else Reason.CHEAPEST, one.node
        # Nobody pays more by the second for a slower pool, whatever has not run there yet.
        resort = max(seen, key=_PRICE)
        if not must_know or resort.runs != NOTHING_RAN:
            known = (one for one in seen if one.runs != NOTHING_RAN or not must_know)
            resort = min(known, key=_LATE)
        return resort.offer, Reason.SOONEST, resort.node

    def pick(self, features: Features, offer: Offer) -> Node | None:
        """Return the node of a pool for the request, None if no live node takes it."""
        rank = class_of(features)
        return self._node(offer, rank, 0.0 if rank == PATIENT else _run_of(features, offer).p50_ms)

    def yields(self, features: Features, offer: Offer, node: Node, now_ms: int) -> int:
        """Return for how long from its arrival a request leaves its node's last slot, ms."""
        return yields_ms(features, offer, node, now_ms, self.patience_ms)

    def _node(self, offer: Offer, rank: int, run_ms: float) -> Node | None:
        if rank == PATIENT:
            return place_to_rest(offer, self.patience_ms)
        return soonest(offer, rank, run_ms)

    def _does(self, features: Features, one: Prospect) -> bool:
        """Return whether a pool will do."""
        if features.slo_ms is not None:
            return one.late_ms <= features.slo_ms
        # Somebody waits for what is neither patient nor has an objective, who knows for how long.
        return one.wait_ms <= (self.patience_ms if features.priority is _BATCH else 0.0)

    def _by_cost(self, features: Features, offers: Sequence[Offer]) -> Iterator[Prospect]:
        """Yield what each pool would be for the request, cheapest first.

        The node of a pool is looked for only when the pools that may be cheaper have been yielded:
        that is most of what a decision costs.
        """
        rank = class_of(features)
        kind = kind_of(features.model, features.gflops)
        least = []
        for number, offer in enumerate(offers):
            pool = offer.pool
            run = pool.estimates.measured(kind) or unmeasured(offer.latency_ms)
            cost = _cost(pool.cost_coefficient, offer.fastest, run)
            least.append((cost, number, offer, run))
        least.sort()
        ready: list[tuple[float, int, Prospect]] = []
        for cost, number, offer, run in least:
            while ready and ready[0][0] < cost:
                yield ready.pop(0)[2]
            prospect = self._prospect(features, offer, run, rank)
            insort(ready, (prospect.cost, number, prospect))
        for _, _, prospect in ready:
            yield prospect

    def _prospect(self, features: Features, offer: Offer, run: Estimate, rank: int) -> Prospect:
        pool = offer.pool
        node = self._node(offer, rank, run.p50_ms)
        mean_ms, doubt_ms, slowness = 0.0, 0.0, 1.0
        if node is not None:
            slowness = node.slowness
            mean_ms, doubt_ms = wait_of(node, rank, express=pool.express)
        margin = 1.0
        # Rule 3 holds later turns to the compute type, so the first one has to leave room for them.
        if features.conversation:
            margin = TURNS_MARGIN
            if node is not None and node.slots > 0:
                turns_ms = TURNS_WAIT * node.latency_ms / node.slots
                doubt_ms = max(doubt_ms, turns_ms - mean_ms)
        return Prospect(
            offer,
            node,
            run.runs,
            _cost(pool.cost_coefficient, slowness, run),
            mean_ms,
            HOP_MS + mean_ms + slowness * margin * run.p50_ms,
            HOP_MS + mean_ms + doubt_ms + slowness * margin * run.p99_ms,
        )


def _cost(coefficient: float, slowness: float, run: Estimate) -> float:
    """Return what a run is expected to cost, in gpu slot-seconds."""
    return coefficient * slowness * run.p50_ms / 1000


def _is_patient(features: Features) -> bool:
    return features.priority is _BATCH and features.slo_ms is None


def _may_explore(features: Features) -> bool:
    return (features.key_hash >> _EXPLORE_SHIFT) % EXPLORE_ONE_IN == 0


def _explored(features: Features, prospects: Iterable[Prospect]) -> Prospect | None:
    """Return the cheapest pool that is little known and worth a try."""
    slo_ms, batch = features.slo_ms, features.priority is _BATCH
    # Work with an objective takes its chance only where nothing is known: else a pool that no
    # patient work comes by would stay unknown.
    enough = EXPLORE_RUNS if batch and slo_ms is None else 0
    for one in prospects:
        in_time = one.wait_ms <= 0.0 and one.soon_ms <= (slo_ms or inf)
        if one.runs < enough and in_time and (batch or _is_idle(one.offer)):
            return one
    return None


def _is_idle(offer: Offer) -> bool:
    """Return whether nothing runs there that will soon tell how long runs take."""
    return all(node.unfinished <= 0.0 and node.busy == 0 for node in offer.nodes)


def _run_of(features: Features, offer: Offer) -> Estimate:
    return offer.pool.estimates.run(features.model, features.gflops, offer.latency_ms)
