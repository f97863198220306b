"""How fast each pool partition fills and empties, and how long its counts have stood still.

Pure: the row of the lag table is folded from absolute samples, so a sample that is read twice
changes nothing and a lost one only makes the next step longer.
"""

from __future__ import annotations

import math

from schemas.control import LagSample, PartitionLag
from schemas.message import Message
from schemas.work import mflop_ahead

RATE_TIME_CONSTANT_S = 1.0
"""Ten probes: smooths over batches of finished records, and a node slowed down shows in 2 s."""
STEADY_TIME_CONSTANT_S = 10.0
"""For people, who read it in minutes: a slot that ends one request every few seconds has a rate."""
RATE_MIN = 0.001
"""A second. Smoothing alone would never come to 0; a rate below one in a quarter hour is 0."""


class Pace(Message):
    """How one pool partition moves.

    Attributes:
        finish_rate: records finished a second, smoothed over 1 s: what routers reckon with.
        still_ms: for how long neither of its counts has changed.
        arriving, finishing: records routed and finished a second, smoothed over 10 s.
        finishing_mflop: MFLOP finished a second, smoothed over 10 s.
    """

    finish_rate: float = 0.0
    still_ms: int = 0
    arriving: float = 0.0
    finishing: float = 0.0
    finishing_mflop: float = 0.0


class LagRow(Message):
    """The one row of the lag table: the last sample, and the pace its predecessors showed."""

    version: int = 1
    sample: LagSample
    paces: dict[str, tuple[Pace, ...]]
    """By pool, in partition order."""


def fold_sample(row: LagRow | None, sample: LagSample) -> LagRow:
    """Return the row after one more sample."""
    if row is None:
        return LagRow(sample=sample, paces={n: (Pace(),) * len(p) for n, p in sample.pools.items()})
    elapsed_ms = sample.probed_at_ms - row.sample.probed_at_ms
    paces = {}
    for pool, lags in sample.pools.items():
        before = row.sample.pools.get(pool, ())
        known = row.paces.get(pool, ())
        paces[pool] = tuple(
            # A partition added since the last sample begins without a history.
            _pace(known[i], before[i], lag, elapsed_ms) if i < len(before) else Pace()
            for i, lag in enumerate(lags)
        )
    return LagRow(sample=sample, paces=paces)


def _pace(pace: Pace, before: PartitionLag, now: PartitionLag, elapsed_ms: int) -> Pace:
    if elapsed_ms <= 0:
        # The same sample again, or one by a worker whose clock is behind: it says nothing of speed.
        return pace
    seconds = elapsed_ms / 1000
    # Counts fall only when a group was deleted and begins again; that is no negative speed.
    finished = max(0, now.finished - before.finished) / seconds
    arrived = max(0, now.routed - before.routed) / seconds
    mflop = max(0, mflop_ahead(now.finished_mflop, before.finished_mflop)) / seconds
    moved = (now.routed, now.finished) != (before.routed, before.finished)
    weight = weight_of(seconds, RATE_TIME_CONSTANT_S)
    steady = weight_of(seconds, STEADY_TIME_CONSTANT_S)
    finishing = towards(pace.finishing, finished, steady)
    return Pace(
        finish_rate=towards(pace.finish_rate, finished, weight),
        still_ms=0 if moved else pace.still_ms + elapsed_ms,
        arriving=towards(pace.arriving, arrived, steady),
        finishing=finishing,
        finishing_mflop=towards(pace.finishing_mflop, mflop, steady) if finishing else 0.0,
    )


def weight_of(seconds: float, time_constant_s: float) -> float:
    """Return how much a measurement over so many seconds counts against what was known."""
    return 1 - math.exp(-seconds / time_constant_s)


def towards(rate: float, measured: float, weight: float) -> float:
    """Return the smoothed rate after a measurement; 0 where it is too small to tell from 0."""
    smoothed = rate + weight * (measured - rate)
    return smoothed if smoothed >= RATE_MIN else 0.0
