"""How long a request leaves the last free slot of its node to others, without being late for it.

Long runs take slot after slot until all are held for half a minute, and nobody interrupts them.
What can wait begins only beside a slot that stays free, so that short work with a short objective
finds one (docs/adr/0146). Nodes that keep no slot for urgent work take no notice.
"""

from __future__ import annotations

from schemas.features import Features, objective_ms
from schemas.request import Priority
from streams.policy.estimates import kind_of
from streams.policy.node import Node
from streams.policy.offers import Offer
from streams.policy.waits import HOP_MS, class_of, wait_of

YIELDS_MS_MAX = 1 << 16
"""A minute: beyond it nothing is gained, as the simulator says."""

_BATCH = Priority.BATCH


def yields_ms(features: Features, offer: Offer, node: Node, now_ms: int, patience_ms: float) -> int:
    """Return for how long after its arrival the request yields; 0 where nobody knows its run.

    The largest power of two within its slack: the time that its objective, or its patience, leaves
    beside the slowest run and the longest wait in a hundred. So nothing yields where much waits: a
    slot that stays free there is missed. Powers of two, as decisions that are alike are written
    alike; and they leave a quarter of the slack on average.
    """
    if not offer.pool.express or node.slots < 2:  # noqa: PLR2004  none but the last one
        return 0
    run = offer.pool.estimates.measured(kind_of(features.model, features.gflops))
    if run is None:
        return 0
    time_ms = objective_ms(features.slo_ms, features.priority)
    if time_ms is None:
        if features.priority is not _BATCH:  # somebody waits, who knows for how long
            return 0
        time_ms = patience_ms
    time_ms = min(time_ms, features.expires_at_ms - now_ms)
    mean_ms, doubt_ms = wait_of(node, class_of(features), express=True)
    slack_ms = int(time_ms - HOP_MS - mean_ms - doubt_ms - node.slowness * run.p99_ms)
    return min(YIELDS_MS_MAX, 1 << (slack_ms.bit_length() - 1)) if slack_ms > 0 else 0
