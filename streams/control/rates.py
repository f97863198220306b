"""How fast each pool partition finishes, and how long its counts have stood still.

Pure: the row of the lag table is folded from absolute samples, so a sample that is read twice
changes nothing and a lost one only makes the next step longer.
"""

from __future__ import annotations

import math

from schemas.control import LagSample, PartitionLag
from schemas.message import Message

RATE_TIME_CONSTANT_S = 1.0
"""Ten probes: smooths over batches of finished records, and a node slowed down shows in 2 s."""


class Pace(Message):
    """How one pool partition moves.

    Attributes:
        finish_rate: records a second, exponentially smoothed.
        still_ms: for how long neither of its counts has changed.
    """

    finish_rate: float = 0.0
    still_ms: int = 0


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
    weight = 1 - math.exp(-seconds / RATE_TIME_CONSTANT_S)
    # Counts fall only when a group was deleted and begins again; that is no negative speed.
    measured = max(0, now.finished - before.finished) / seconds
    moved = (now.routed, now.finished) != (before.routed, before.finished)
    return Pace(
        finish_rate=pace.finish_rate + weight * (measured - pace.finish_rate),
        still_ms=0 if moved else pace.still_ms + elapsed_ms,
    )
