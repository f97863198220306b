"""Baselines: what `overflow` is measured against. They replace rules 6 to 10, never 1 to 5."""

from __future__ import annotations

from schemas.features import Features
from schemas.outcomes import Reason
from schemas.pools import GPU
from streams.policy.offers import Choice, Offers

_POOL_BITS = 16
"""The upper half of a 32-bit key hash chooses the pool; the lower half chooses partitions."""


def gpu_only(_features: Features, offers: Offers, _threshold: int) -> Choice:
    """Return the gpu, also while it is down; the cheapest other pool only where it is excluded."""
    return offers.named(GPU) or offers.open[0], Reason.BASELINE, None


def round_robin(features: Features, offers: Offers, _threshold: int) -> Choice:
    """Return every open pool equally often, by hash of the key: a counter could not be replayed."""
    turn = features.key_hash >> _POOL_BITS
    return offers.open[turn % len(offers.open)], Reason.BASELINE, None
