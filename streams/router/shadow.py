"""A candidate policy beside the one that routes: it decides each request too, and nothing follows.

What it would have done is tallied as it decides, by the same expectation for both sides. It must
not know what becomes of a decision: a batch that is decided anew is tallied anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.features import Features
from streams.policy import Decision, Policy, View
from streams.policy.expectation import expected

ROUTING, SHADOW = "routing", "shadow"
"""The two sides, as label values."""
NOWHERE = "none"


@dataclass
class Tally:
    """What was seen since the last one was taken.

    Attributes:
        pools: (pool, the shadow's pool) by count; "none" where nothing would be routed.
        otherwise: to another pool or node.
        cost: expected, by side; of decisions for which both sides chose a live node.
        objectives: (side, met) by count, of these.
        failures: times the shadow raised an error.
    """

    pools: Counter[tuple[str, str]] = field(default_factory=Counter)
    otherwise: int = 0
    cost: dict[str, float] = field(default_factory=lambda: {ROUTING: 0.0, SHADOW: 0.0})
    objectives: Counter[tuple[str, bool]] = field(default_factory=Counter)
    failures: int = 0


class Shadowed:
    """The policy that routes, watched by a candidate; takes its place where requests are decided.

    Args:
        policy: decides.
        candidate: would have decided.
        prices: cost coefficients by pool.
    """

    def __init__(self, policy: Policy, candidate: Policy, prices: Mapping[str, float]) -> None:
        self.name = policy.name
        self._policy, self._candidate, self._prices = policy, candidate, prices
        self._tally = Tally()

    def decide(self, features: Features, view: View, now_ms: int) -> Decision:
        """Return what the policy decides; whatever the candidate does, it does not matter."""
        decision = self._policy.decide(features, view, now_ms)
        try:
            self._compare(features, view, now_ms, decision)
        except Exception:  # noqa: BLE001  a candidate may have any fault; the stream goes on
            self._tally.failures += 1
        return decision

    def take_tally(self) -> Tally:
        """Return what was seen since the last call."""
        tally, self._tally = self._tally, Tally()
        return tally

    def _compare(self, features: Features, view: View, now_ms: int, decision: Decision) -> None:
        other = self._candidate.decide(features, view, now_ms)
        tally = self._tally
        tally.pools[decision.pool or NOWHERE, other.pool or NOWHERE] += 1
        tally.otherwise += (decision.pool, decision.node) != (other.pool, other.node)
        ours = expected(features, decision, view, self._prices)
        theirs = expected(features, other, view, self._prices)
        if ours is None or theirs is None:
            return
        for side, one in ((ROUTING, ours), (SHADOW, theirs)):
            tally.cost[side] += one.cost
            if one.met is not None:
                tally.objectives[side, one.met] += 1
