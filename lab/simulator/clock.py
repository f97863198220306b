"""Virtual time: what is to happen, in order of time, then in the order it was planned."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, TypeVar

from lab.simulator.workload import Asked

About = TypeVar("About")
Event = Callable[[About, float], None]
"""What happens, given what it is about and the time in ms."""
_Planned = tuple[float, int, Event[Any], Any]
"""When it happens, its number among all that was planned, the event, what it is about."""


class Clock:
    """Events to come."""

    def __init__(self) -> None:
        self._numbers = 0
        self._events: list[_Planned] = []
        self._requests: Iterator[_Planned] = iter(())
        self._request: _Planned | None = None

    def at(self, at_ms: float, event: Event[About], about: About) -> None:
        """Plan an event; what is planned for the same time happens in the order of planning."""
        # What it is about lies beside it: to bind both into a partial takes twice as long.
        self._numbers = number = self._numbers + 1
        heapq.heappush(self._events, (at_ms, number, event, about))

    def expect(self, requests: Sequence[Asked], take: Event[Asked]) -> None:
        """Let requests come, each planned when the one before it does; they are in order of time.

        So they need no place in the heap.
        """
        self._requests = self._planned(requests, take)
        self._request = next(self._requests, None)

    def run(self, ended: Sized, enough: int) -> None:
        """Let events happen until so many requests have ended; until then there are some."""
        events, pop = self._events, heapq.heappop
        while len(ended) < enough:
            planned = self._request
            if planned is not None and (not events or planned < events[0]):
                self._request = next(self._requests, None)
            else:
                planned = pop(events)
            now_ms, _, event, about = planned
            event(about, now_ms)

    def _planned(self, requests: Sequence[Asked], take: Event[Asked]) -> Iterator[_Planned]:
        for asked in requests:
            self._numbers += 1
            yield asked.at_ms, self._numbers, take, asked
