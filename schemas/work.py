"""Work: how much computing a request is, by its sender's estimate, and how counts of it compare.

Routers and nodes must count a request alike, so this is the only place where an estimate becomes a
number. Counts of work are integers, so that sums are exact in any order.
"""

from __future__ import annotations

MFLOP_PER_GFLOP = 1000
MFLOP_MAX = 2**40
"""Of one request: a million tokens by a model of 550 billion weights. More is counted as this, so
that a mistaken estimate cannot turn the sum of a partition round (eight million such requests)."""
MFLOP_WRAP = 2**64
"""Cumulative counts take 8 bytes and begin again at 0 beyond them, as sequence numbers do: at the
largest requests, a thousand a second, that is every five hours."""


def mflop_of(estimated_gflops: float | None) -> int:
    """Return the work of a request in MFLOP (thousandths of a GFLOP); 0 without an estimate."""
    if estimated_gflops is None:
        return 0
    mflop = estimated_gflops * MFLOP_PER_GFLOP
    # Once a record on a router's hot path: round() and min() take twice the time.
    return int(mflop + 0.5) if mflop < MFLOP_MAX else MFLOP_MAX


def mflop_ahead(count: int, behind: int) -> int:
    """Return how far one cumulative count of work is ahead of another; below 0 if it is behind.

    Right while they are less than half of MFLOP_WRAP apart.
    """
    ahead = (count - behind) % MFLOP_WRAP
    return ahead - MFLOP_WRAP if ahead >= MFLOP_WRAP // 2 else ahead
