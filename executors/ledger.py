"""Completion ledger of one topic partition: which offsets were read and which have left it.

Pure. It owns the numbers that ride in the committed offset, nothing else: it does not know what a
record holds, who runs it or how a commit is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from schemas.metadata import FRONTIER_SPAN_MAX, IN_FLIGHT_MAX, FinishedCounts


class Done(NamedTuple):
    """What leaves a topic partition in one transaction: offsets, how many ended how, their work."""

    offsets: tuple[int, ...]
    dead: int = 0
    expired: int = 0
    mflop: int = 0


class Ledger:
    """Offsets entered and not yet finished, the frontier above them, and the cumulative counts.

    Offsets are entered in ascending order and finished in any. After a restart reading begins at
    the committed offset, so offsets come again: those that the restored counts call unfinished are
    to be run, the others below the frontier were finished before.
    """

    __slots__ = ("_dead", "_expired", "_finished", "_frontier", "_next", "_unfinished", "_work")

    def __init__(self, restored: FinishedCounts) -> None:
        self._finished = restored.finished
        self._dead = restored.dead
        self._expired = restored.expired
        self._work = restored.work
        self._frontier = restored.frontier
        self._next = restored.committed
        # A dict keeps the order of entry, which is ascending, and removes in O(1).
        self._unfinished: dict[int, None] = dict.fromkeys(restored.unfinished)

    @property
    def counts(self) -> FinishedCounts:
        """Return what to commit."""
        return self.after(())

    @property
    def next_wanted(self) -> int:
        """Return the lowest offset that was not entered since this ledger was made."""
        return self._next

    def has_room_for(self, offset: int) -> bool:
        """Return whether this offset may be entered and the metadata still fits."""
        if offset < self._frontier:
            return True  # read again after a restart: it is in the metadata, full as that may be
        if len(self._unfinished) >= IN_FLIGHT_MAX:
            return False
        lowest = next(iter(self._unfinished), self._frontier)
        return self._frontier - lowest < FRONTIER_SPAN_MAX

    def enter(self, offset: int) -> bool:
        """Enter the next offset read; return whether its record is to be run."""
        if offset < self._next:
            raise ValueError(f"offset {offset} was entered before; next wanted is {self._next}")
        self._next = offset + 1
        if offset < self._frontier:
            return offset in self._unfinished
        self._frontier = offset + 1
        self._unfinished[offset] = None
        return True

    def after(
        self, offsets: Iterable[int], dead: int = 0, expired: int = 0, mflop: int = 0
    ) -> FinishedCounts:
        """Return what to commit with these offsets finished; the ledger itself stays as it is."""
        leaving = set(offsets)
        staying = tuple(offset for offset in self._unfinished if offset not in leaving)
        left = len(self._unfinished) - len(staying)
        return FinishedCounts(
            self._finished + left,
            self._frontier,
            staying,
            self._dead + dead,
            self._expired + expired,
            self._work + mflop,
        )

    def finish(
        self, offsets: Iterable[int], dead: int = 0, expired: int = 0, mflop: int = 0
    ) -> None:
        """Take note that these offsets have left the partition; KeyError if one is not in it."""
        for offset in offsets:
            del self._unfinished[offset]
            self._finished += 1
        self._dead += dead
        self._expired += expired
        self._work += mflop
