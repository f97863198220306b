"""What this router has routed beyond what the snapshot counts.

Pure. The snapshot names, per input partition, the offset it includes; a batch whose offsets lie
beyond it has to be added, one within it must not be added twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.control import Snapshot

KEEP_S = 30.0
"""A snapshot older than this is not used any more (blind), so neither is what came after it."""

PoolPartition = tuple[str, int]


@dataclass(frozen=True)
class Delta:
    """One batch: what it routed, and the offsets its commit left behind (-1: source untouched)."""

    partition: int
    next: tuple[int, int]
    routed: Mapping[PoolPartition, int]
    at_s: float


class Deltas:
    """The batches of all lanes of this router, newest last."""

    def __init__(self) -> None:
        self._deltas: deque[Delta] = deque()

    def add(self, delta: Delta) -> None:
        """Count a batch from the moment it is decided."""
        self._deltas.append(delta)

    def take_back(self, delta: Delta) -> None:
        """Forget a batch that was not committed."""
        if delta in self._deltas:
            self._deltas.remove(delta)

    def beyond(self, snapshot: Snapshot | None, now_s: float) -> dict[PoolPartition, int]:
        """Return what was routed beyond the snapshot, and forget what it includes or is too old."""
        self._deltas = deque(
            delta
            for delta in self._deltas
            if now_s - delta.at_s <= KEEP_S and not _included(delta, snapshot)
        )
        own: Counter[PoolPartition] = Counter()
        for delta in self._deltas:
            own.update(delta.routed)
        return dict(own)


def _included(delta: Delta, snapshot: Snapshot | None) -> bool:
    if snapshot is None:
        return False
    # One transaction moves both offsets, so either one tells.
    counted = (snapshot.requests_included, snapshot.retry_included)
    return any(
        following >= 0
        and delta.partition < len(included)
        and included[delta.partition] >= following
        for following, included in zip(delta.next, counted, strict=True)
    )
