"""Rule 3: a conversation stays where its cache is, unless waiting there costs more than rebuilding.

Waiting costs the expected wait at the bound node less the one elsewhere. Rebuilding costs at most
the turn's own run elsewhere, which reads the whole conversation again. A turn that is longer than
the mean run, or of which nobody knows, pays that: which part of it would be reading is not said. So
a conversation leaves only when the wait here is longer than wait and run together elsewhere.

It is *live* while its node can take the request. Then elsewhere means its own compute type: a cache
is of no use on another, and its user would hear another voice in mid-sentence (docs/adr/0066).
"""

from __future__ import annotations

from math import inf

from schemas.features import Features
from streams.policy.estimates import kind_of
from streams.policy.node import Node
from streams.policy.offers import NOW, UNKNOWN_WHEN, Offer, Offers
from streams.policy.placement import best_node

Binding = tuple[str, str]
"""(pool, node) that holds a conversation's cache."""

Place = tuple[Offer, Node]
"""A pool's offer and a node in it."""


def keep(
    features: Features,
    offers: Offers,
    binding: Binding,
    chosen: Offer,
    node: Node | None,
    *,
    urgent: bool,
    release_factor: float = 1.0,
) -> tuple[Place | None, str]:
    """Return where rule 3 holds a bound conversation's request, and why it is let go.

    No place: it goes where the other rules say. No word: the binding stays as it is, so that a
    request which goes elsewhere all the same is a guest there.

    Args:
        features: of the turn.
        offers: what all pools offer the request.
        binding: of its conversation.
        chosen, node: where the request goes if it is not bound.
        urgent: rules 4 and 5 insist on the chosen pool.
        release_factor: how many runs it costs to rebuild a cache; 0 lets go for any shorter wait,
            infinity never does.
    """
    pool, node_id = binding
    home = offers.named(pool)
    here = _able(home, node_id)
    if home is None or here is None:
        return None, f"{node_id} cannot take the request now{_because(offers, pool)}"
    same_type = chosen.pool.compute_type is home.pool.compute_type
    if urgent and chosen.pool is not home.pool:
        return None, f"{chosen.pool.name} is demanded" if same_type else ""
    elsewhere = node if same_type else best_node(home)
    if elsewhere is None or here is elsewhere or release_factor == inf:
        return (home, here), ""
    rebuilt_ms = _rebuilt_ms(features, chosen if same_type else home, elsewhere)
    if here.wait_ms <= elsewhere.wait_ms + release_factor * rebuilt_ms:
        return (home, here), ""
    return None if same_type else (home, elsewhere), (
        f"{here.wait_ms:.0f} ms to wait at {here.id}; at {elsewhere.id} it is "
        f"{elsewhere.wait_ms:.0f} ms, and {rebuilt_ms:.0f} ms for a new cache"
    )


def _rebuilt_ms(features: Features, offer: Offer, node: Node) -> float:
    """Return what a new cache costs at a node: the turn's own run, the mean one at most."""
    run = offer.pool.estimates.measured(kind_of(features.model, features.gflops))
    return node.latency_ms if run is None else min(node.latency_ms, node.slowness * run.p50_ms)


def _able(home: Offer | None, node_id: str) -> Node | None:
    """Return the bound node if it can take the request, whatever it costs to wait."""
    if home is not None and home.opens_at_ms == NOW:
        for node in home.nodes:
            if node.id == node_id:
                return node
    return None


def _because(offers: Offers, pool: str) -> str:
    """Return what is known of the pool that explains it."""
    said = offers.by_pool.get(pool)
    if isinstance(said, str):
        return f": {pool}: {said}"
    return f": {pool} is down" if said is not None and said.opens_at_ms == UNKNOWN_WHEN else ""
