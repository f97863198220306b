"""What this router has routed beyond what the snapshot counts.

Pure. The snapshot names, per input partition, the offset it includes; a batch whose offsets lie
beyond it has to be added, one within it must not be added twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from schemas.value import Value
from streams.policy.told import SnapshotTold

KEEP_S = 30.0
"""A snapshot older than this is not used any more (blind), so neither is what came after it."""

PoolPartition = tuple[str, int]


class Delta(Value, frozen=True):
    """One batch: what it routed, and the offsets its commit left behind (-1: source untouched)."""

    partition: int
    next: tuple[int, int]
    routed: Mapping[PoolPartition, int]
    at_s: float


class Deltas:
    """The batches of all lanes of this router, and their sum."""

    def __init__(self) -> None:
        self._deltas: list[Delta] = []
        self._sum: dict[PoolPartition, int] = {}
        self._compared: tuple[int, int] | None = None
        self.revision = 0
        """Grows when the sum shrinks: what was made from it has to be made anew."""

    def add(self, delta: Delta) -> None:
        """Count a batch from the moment it is decided."""
        self._deltas.append(delta)
        _add(self._sum, delta, 1)

    def take_back(self, delta: Delta) -> None:
        """Forget a batch that was not committed."""
        if delta in self._deltas:
            self._deltas.remove(delta)
            _add(self._sum, delta, -1)
            self.revision += 1

    def beyond(self, snapshot: SnapshotTold, now_s: float) -> dict[PoolPartition, int]:
        """Return what was routed beyond the snapshot, and forget what it includes or is too old."""
        known = snapshot.generation, snapshot.number
        if known != self._compared or (self._deltas and _too_old(self._deltas[0], now_s)):
            self._compared = known
            self.revision += 1
            self._deltas = [
                delta
                for delta in self._deltas
                if not _too_old(delta, now_s) and not _included(delta, snapshot)
            ]
            self._sum = {}
            for delta in self._deltas:
                _add(self._sum, delta, 1)
        return {place: records for place, records in self._sum.items() if records}


def _add(total: dict[PoolPartition, int], delta: Delta, times: int) -> None:
    for place, records in delta.routed.items():
        total[place] = total.get(place, 0) + times * records


def _too_old(delta: Delta, now_s: float) -> bool:
    return now_s - delta.at_s > KEEP_S


def _included(delta: Delta, snapshot: SnapshotTold) -> bool:
    # One transaction moves both offsets, so either one tells.
    partition, (request, retry) = delta.partition, delta.next
    return _passed(request, snapshot.requests_included, partition) or _passed(
        retry, snapshot.retry_included, partition
    )


def _passed(following: int, included: tuple[int, ...], partition: int) -> bool:
    return following >= 0 and partition < len(included) and included[partition] >= following
