"""How long a request leaves the last free slot of its node to others.

Long runs take slot after slot until all are held for half a minute, and nobody interrupts them.
Those that can wait begin only beside a slot that stays free, so that short work with a short
objective finds one (docs/adr/0146). Nodes that keep no slot for urgent work take no notice.
"""

from __future__ import annotations

from schemas.features import Features, objective_ms
from schemas.request import Priority
from streams.policy.estimates import kind_of
from streams.policy.node import Node
from streams.policy.offers import Offer
from streams.policy.waits import HOP_MS, class_of, wait_of

LONG = 1.1
"""Runs yield that are expected to last so many times the node's mean: where all work is alike none
does, though a mean of 100 runs is a little off."""

_BATCH = Priority.BATCH


def yields_ms(features: Features, offer: Offer, node: Node, now_ms: int, patience_ms: float) -> int:
    """Return for how long after its arrival the request yields; 0 where nobody knows its run.

    The largest power of two within its slack: the time that its objective, or its patience, leaves
    beside the slowest run and the longest wait in a hundred. So less yields where more waits: a
    slot that stays free there is missed. Powers of two, as decisions that are alike are written
    alike; and they leave more than a quarter of the slack on average.
    """
    if not offer.pool.express or node.slots < 2:  # noqa: PLR2004  none but the last one
        return 0
    run = offer.pool.estimates.measured(kind_of(features.model, features.gflops))
    if run is None:
        return 0
    time_ms = objective_ms(features.slo_ms, features.priority)
    if time_ms is None and features.priority is _BATCH:
        time_ms = patience_ms
    elif time_ms is None or node.slowness * run.p50_ms < LONG * node.latency_ms:
        return 0  # nobody knows how long its client waits, or it is short
    time_ms = min(time_ms, features.expires_at_ms - now_ms)
    mean_ms, doubt_ms = wait_of(node, class_of(features), express=True)
    slack_ms = int(time_ms - HOP_MS - mean_ms - doubt_ms - node.slowness * run.p99_ms)
    return 1 << (slack_ms.bit_length() - 1) if slack_ms > 0 else 0
