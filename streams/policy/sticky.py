"""Rule 3: a conversation stays where its cache is, unless waiting there costs more than rebuilding.

Waiting costs the expected wait at the bound node less the one elsewhere. Rebuilding costs at most
one run elsewhere: the conversation has to be read again, and the mean run reads and answers one.
So a conversation leaves only when the wait here is longer than wait and run together elsewhere.
"""

from __future__ import annotations

from streams.policy.fleet import Node
from streams.policy.offers import NOW, Offer


def stay(home: Offer | None, node_id: str, elsewhere: Node | None) -> tuple[Node | None, str]:
    """Return the bound node if the conversation stays, else None and why in one line.

    `home` is the offer of the node's pool, None where the rules do not allow that pool;
    `elsewhere` is the node of the request if it were not bound, None if it would have none.
    """
    nodes = home.nodes if home is not None and home.opens_at_ms == NOW else ()
    for node in nodes:
        if node.id == node_id:
            if elsewhere is None or node.wait_ms <= elsewhere.wait_ms + elsewhere.latency_ms:
                return node, ""
            return None, (
                f"{node.wait_ms:.0f} ms to wait at {node.id}; at {elsewhere.id} it is "
                f"{elsewhere.wait_ms:.0f} ms, and {elsewhere.latency_ms:.0f} ms for a new cache"
            )
    return None, f"{node_id} cannot take the request now"
