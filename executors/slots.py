"""Slots of a node: how many requests run at once, one of them kept for urgent work.

Pure. Urgent means express or realtime; the reserve keeps a long batch job from being all that runs
when a realtime request arrives. Where one is kept, the last free slot, that one or another, is not
for work that yields it either.
"""

from __future__ import annotations


class Slots:
    """Count of slots in use.

    Attributes:
        total: slots of the node.
        busy: slots in use.
        keeps: whether one is kept.
    """

    __slots__ = ("_ordinary", "_ordinary_max", "busy", "keeps", "total")

    def __init__(self, total: int, *, reserve: bool) -> None:
        self.total = total
        self.busy = 0
        self._ordinary = 0
        # With one slot a reserve would leave nothing for the rest.
        self.keeps = reserve and total > 1
        self._ordinary_max = total - 1 if self.keeps else total

    def free(self, *, urgent: bool) -> bool:
        """Return whether such work may start now."""
        return self.busy < self.total and (urgent or self._ordinary < self._ordinary_max)

    @property
    def last(self) -> bool:
        """Return whether a slot that is free is the last one of a node that keeps one."""
        return self.keeps and self.busy == self.total - 1

    def take(self, *, urgent: bool) -> None:
        """Take a slot that is free for such work."""
        if not self.free(urgent=urgent):
            raise ValueError("no slot is free")
        self.busy += 1
        self._ordinary += not urgent

    def give_back(self, *, urgent: bool) -> None:
        """Free a slot taken for such work."""
        self.busy -= 1
        self._ordinary -= not urgent
