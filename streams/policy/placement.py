"""Node choice: where in a pool a request goes.

The node with the least expected wait, then the least loaded one, then the one this router prefers;
inside the node its least loaded partition.
"""

from __future__ import annotations

from operator import attrgetter

from streams.policy.node import Node
from streams.policy.offers import Offer

_ORDER = attrgetter("order")


def best_node(offer: Offer) -> Node | None:
    """Return the node for the next request, None if no live node can take it."""
    # Nodes lie in the router's order of preference and min keeps the first: that breaks ties.
    return min(offer.nodes, key=_ORDER) if offer.nodes else None


def partition_of(offer: Offer, node: Node | None, key_hash: int) -> int:
    """Return the node's least loaded partition; without a node, one by hash of the key."""
    unfinished = offer.pool.unfinished
    if node is None:
        return key_hash % len(unfinished)
    if len(node.partitions) == 1:
        return node.partitions[0]
    return min(node.partitions, key=unfinished.__getitem__)
