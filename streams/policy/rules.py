"""Rules 1 to 5 of the table in docs/policy.md: every policy passes through here.

Filter (which pools can take the request), choose (one of them), pick (a node in it). A policy
brings the choice that rules 4 and 5 leave open, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemas.features import REALTIME_SLO_MS, STRICT_SLO_MS, Features
from schemas.outcomes import Mode, Reason
from schemas.pools import GPU
from schemas.request import Priority
from streams.policy.compatibility import offers_for
from streams.policy.decision import Decision
from streams.policy.node import Node
from streams.policy.offers import Choice, Offer, Offers
from streams.policy.placement import best_node, partition_of
from streams.policy.sticky import keep
from streams.policy.view import View

# Looking a member up in its class takes longer than the rule that asks for it.
_BLIND, _REALTIME = Mode.BLIND, Priority.REALTIME

Choose = Callable[[Features, Offers, int], Choice]
"""Rules 6 to 10, given the features, offers of which at least one is open, and the threshold."""


Pick = Callable[[Features, Offer], Node | None]
"""Which node of the chosen pool, None if no live node can take the request."""


Yields = Callable[[Features, Offer, Node, int], int]
"""For how long from its arrival a request leaves its node's last free slot to others, ms; the last
argument is the time in epoch ms."""


def _least_wait(_features: Features, offer: Offer) -> Node | None:
    return best_node(offer)


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to choose pools, under rules 1 to 5.

    Attributes:
        threshold: fixed; None: the one that control publishes.
        pick: chooses the node in a pool.
        yields: says for how long a request leaves its node's last slot to others; None: never.
        release_factor: how dear it is to rebuild a conversation's cache, in runs.
    """

    name: str
    choose: Choose
    threshold: int | None = None
    pick: Pick = _least_wait
    yields: Yields | None = None
    release_factor: float = 1.0

    def decide(self, features: Features, view: View, now_ms: int) -> Decision:
        """Return where the request goes, given the time in epoch ms; the view stays as it is."""
        threshold = view.threshold if self.threshold is None else self.threshold

        # 1. Too late for anybody.
        if now_ms >= features.expires_at_ms:
            return Decision(Reason.EXPIRED, threshold)

        # 2. Filter: what no pool can ever take ends here.
        offers = offers_for(features, view, now_ms)
        urgency = _urgency(features)
        demanded = offers.named(GPU) if urgency else None
        if (urgency and not demanded) or not (offers.open or offers.aside):
            return Decision(Reason.UNROUTABLE, threshold, excluded=offers.excluded)

        # Choose: if all are set aside, one to wait for; by 4 and 5; as the policy says.
        node = None
        if not offers.open:
            offer, reason = demanded or _first_to_open(offers), Reason.WAITING
        elif urgency and demanded:
            offer, reason = _urgent(urgency, features, demanded, offers.gpu_tp)
        elif view.mode is _BLIND:
            offer, reason = offers.gpu or offers.open[0], Reason.BLIND
        else:
            offer, reason, node = self.choose(features, offers, threshold)

        # Pick. 3: a bound conversation stays, unless that choice is worth leaving its cache for.
        node = node or self.pick(features, offer)
        released = ""
        conversation = features.conversation
        binding = view.bindings.get(conversation) if conversation else None
        if binding and view.mode is not _BLIND:
            place, released = keep(
                features,
                offers,
                binding,
                offer,
                node,
                urgent=urgency is not None,
                release_factor=self.release_factor,
            )
            if place:
                (offer, node), reason = place, Reason.STICKY
        return Decision(
            reason,
            threshold,
            offer.pool.name,
            node.id if node else None,
            partition_of(offer, node, features.key_hash),
            urgency is not None and offer.pool.express,
            released,
            self.yields(features, offer, node, now_ms) if self.yields and node else 0,
            offers.excluded,
        )


def _urgency(features: Features) -> Reason | None:
    """Return the reason of rule 4 or 5 if one applies: only a gpu's express lane will do."""
    if features.slo_ms is not None and features.slo_ms < STRICT_SLO_MS:
        return Reason.STRICT_SLO
    if features.priority is _REALTIME:
        return Reason.REALTIME
    return None


def _urgent(
    urgency: Reason, features: Features, gpu: Offer, gpu_tp: Offer | None
) -> tuple[Offer, Reason]:
    """Return the gpu, down or not: urgent work is worth nothing elsewhere.

    Realtime work goes to several gpus at once where one is too slow for its objective.
    """
    if gpu_tp and urgency is Reason.REALTIME:
        objective_ms = REALTIME_SLO_MS if features.slo_ms is None else features.slo_ms
        if not gpu.meets(objective_ms):
            return gpu_tp, Reason.TENSOR_PARALLEL
    return gpu, urgency


def _first_to_open(offers: Offers) -> Offer:
    """Return the pool whose refusal lapses first; of pools that are down the cheapest."""
    return min(offers.aside, key=lambda offer: offer.opens_at_ms)
