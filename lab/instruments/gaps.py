"""How long a partition had work and gave no result.

Pure: when requests began to wait and when their results were seen, in; the longest gap, out. A
partition for which nothing waits gives no results either, and that is no gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple


class Ending(NamedTuple):
    """One request: when it began to wait there, when its result was seen; epoch s."""

    since_s: float
    seen_s: float


def longest_gap_s(endings: Iterable[Ending], begin_s: float, end_s: float) -> float | None:
    """Return the longest time without a result while work waited, of gaps within a stretch of time.

    Args:
        endings: of one partition, also those from before and after the stretch.
        begin_s, end_s: the stretch; a gap counts if it ends in it or after it and begins before its
            end.

    Returns:
        Seconds; None if the partition had no work then.
    """
    ordered = sorted(endings, key=lambda ending: ending.seen_s)
    # For each result, since when the oldest request has waited that had none before it.
    oldest_s = list(accumulate((e.since_s for e in reversed(ordered)), min))[::-1]
    gaps = []
    before_s = float("-inf")
    for ending, waiting_s in zip(ordered, oldest_s, strict=True):
        from_s = max(before_s, waiting_s)
        if ending.seen_s >= begin_s and from_s <= end_s:
            gaps.append(ending.seen_s - from_s)
        before_s = ending.seen_s
    return max(gaps, default=None)
