"""Numbers in the order of their keys, from which others may be taken in any order.

Pure. What is gone is forgotten when it comes to the front, or when most of what is kept is gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Container
from typing import Any

_SLACK = 64
"""Dead entries it may keep before it is rebuilt: rebuilding a small one saves nothing."""


class Ordering:
    """A heap that is not told which of its numbers are gone, only how many.

    Attributes:
        live: how many are not gone.
    """

    __slots__ = ("_entries", "_present", "live")

    def __init__(self, present: Container[int]) -> None:
        """Order numbers, of which those in `present` are not gone."""
        self.live = 0
        self._present = present
        # Key and number in one tuple: one inside another takes twice as long to compare.
        self._entries: list[tuple[Any, ...]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: tuple[float, ...], number: int) -> None:
        """Add a number that is present; equal keys stand in the order of their numbers."""
        self.live += 1
        entries = self._entries
        heapq.heappush(entries, (*key, number))
        if len(entries) > 2 * self.live + _SLACK:
            self._entries = [entry for entry in entries if entry[-1] in self._present]
            heapq.heapify(self._entries)

    def first(self) -> int | None:
        """Return the number with the least key that is not gone; None without any."""
        # The first live one stays: it is gone only when its number is.
        entries, present = self._entries, self._present
        while entries:
            number: int = entries[0][-1]
            if number in present:
                return number
            heapq.heappop(entries)
        return None
