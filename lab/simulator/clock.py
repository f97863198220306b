"""Virtual time: what is to happen, in order of time, then in the order it was planned."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Event = Callable[[float], None]
"""What happens, given the time in ms."""


class Clock:
    """Events to come.

    Attributes:
        now_ms: the time of the event that happens now.
    """

    def __init__(self) -> None:
        self.now_ms = 0.0
        self._planned = 0
        self._events: list[tuple[float, int, Event]] = []

    def at(self, at_ms: float, event: Event) -> None:
        """Plan an event; what is planned for the same time happens in the order of planning."""
        self._planned += 1
        heapq.heappush(self._events, (at_ms, self._planned, event))

    def step(self) -> None:
        """Let the next event happen; there is one."""
        self.now_ms, _, event = heapq.heappop(self._events)
        event(self.now_ms)
