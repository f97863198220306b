"""Priority heap of work that waits for a slot: who starts next.

Pure; time is an argument (epoch ms). Urgent work goes first, then by class; inside a class the
earliest deadline, then the order of arrival. Two things temper that: work may be held until a
moment, and work that has waited long gets a share of the starts, so that nothing starves.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

Item = TypeVar("Item")

AGED_MS = 30_000
"""Work that has waited this long is aged: half of what clients often wait for an answer."""
AGED_EVERY = 8
"""Of this many starts one goes to the oldest aged work. So what has waited 30 s with n aged ahead
of it starts within 8 (n + 1) starts, and a deep batch backlog, all of it aged, costs urgent work
at most an eighth: a quarter made urgent work queue on nodes half full of it."""
_SLACK = 64
"""Dead entries the heap may keep before it is rebuilt: rebuilding a small heap saves nothing."""


class Urgency(IntEnum):
    """The class of work, most urgent first."""

    EXPRESS = 0
    REALTIME = 1
    NORMAL = 2
    BATCH = 3

    @property
    def urgent(self) -> bool:
        """Return whether a slot is kept for such work."""
        return self <= Urgency.REALTIME


# No NamedTuple: in Python 3.10 it cannot be generic.
@dataclass(frozen=True, slots=True)
class Waiting(Generic[Item]):
    """One piece of work in the heap; `since_ms` is when it could first have started."""

    item: Item
    urgency: Urgency
    deadline_ms: float
    expires_at_ms: float
    since_ms: float


class Heap(Generic[Item]):
    """Work that waits for a slot or for its moment."""

    def __init__(self) -> None:
        self._arrivals = 0
        self._starts_since_aged = 0
        # In order of arrival, so that the oldest is found at once (a dict would search for it).
        self._waiting: OrderedDict[int, Waiting[Item]] = OrderedDict()
        self._order: list[tuple[int, float, int]] = []
        self._held: dict[int, Waiting[Item]] = {}
        self._queued = [0, 0, 0]
        self._moments: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._held)

    def push(
        self,
        item: Item,
        urgency: Urgency,
        *,
        deadline_ms: float,
        expires_at_ms: float,
        now_ms: float,
        not_before_ms: float = 0.0,
    ) -> None:
        """Add work; it is held until `not_before_ms`."""
        self._release(now_ms)  # so that the waiting stay in order of when they could first start
        self._arrivals += 1
        since = max(now_ms, not_before_ms)
        waiting = Waiting(item, urgency, deadline_ms, expires_at_ms, since)
        self._count(waiting, 1)
        if not_before_ms > now_ms:
            self._held[self._arrivals] = waiting
            heapq.heappush(self._moments, (not_before_ms, self._arrivals))
        else:
            self._admit(self._arrivals, waiting)

    def pop(self, now_ms: float) -> Waiting[Item] | None:
        """Take out what starts next, whatever its class; None if nothing may start."""
        self._release(now_ms)
        if not self._waiting:
            return None
        oldest, waiting = next(iter(self._waiting.items()))
        aged = now_ms - waiting.since_ms >= AGED_MS
        its_turn = aged and self._starts_since_aged >= AGED_EVERY - 1
        number = oldest if its_turn else self._first()
        self._starts_since_aged = 0 if number == oldest and aged else self._starts_since_aged + 1
        taken = self._waiting.pop(number)
        self._count(taken, -1)
        return taken

    def pop_urgent(self, now_ms: float) -> Waiting[Item] | None:
        """Take out the most urgent work if it is urgent, else None."""
        self._release(now_ms)
        if not self._waiting:
            return None
        number = self._first()
        return self._waiting.pop(number) if self._waiting[number].urgency.urgent else None

    def take_expired(self, now_ms: float) -> list[Waiting[Item]]:
        """Take out all work, held or not, whose `expires_at_ms` has come."""
        return self._take(lambda waiting: waiting.expires_at_ms <= now_ms)

    def remove(self, unwanted: Callable[[Item], bool]) -> list[Waiting[Item]]:
        """Take out all work, held or not, that is unwanted."""
        return self._take(lambda waiting: unwanted(waiting.item))

    @property
    def queued(self) -> tuple[int, int, int]:
        """Return how many are not urgent: normal ones, batch with an objective, batch without."""
        normal, due, patient = self._queued
        return normal, due, patient

    @property
    def next_moment_ms(self) -> float | None:
        """Return when held work is let go next, None if none is held."""
        while self._moments and self._moments[0][1] not in self._held:
            heapq.heappop(self._moments)
        return self._moments[0][0] if self._moments else None

    def _admit(self, number: int, waiting: Waiting[Item]) -> None:
        self._waiting[number] = waiting
        heapq.heappush(self._order, (waiting.urgency, waiting.deadline_ms, number))

    def _release(self, now_ms: float) -> None:
        while (moment := self.next_moment_ms) is not None and moment <= now_ms:
            _, number = heapq.heappop(self._moments)
            self._admit(number, self._held.pop(number))

    def _first(self) -> int:
        """Return the number of the first in order; there is one."""
        if len(self._order) > 2 * len(self._waiting) + _SLACK:
            self._order = [
                (waiting.urgency, waiting.deadline_ms, number)
                for number, waiting in self._waiting.items()
            ]
            heapq.heapify(self._order)
        # What was taken out past the order (aged, expired, removed) leaves its entry behind; the
        # first live one stays until its number is gone from the waiting.
        while (number := self._order[0][2]) not in self._waiting:
            heapq.heappop(self._order)
        return number

    def _take(self, unwanted: Callable[[Waiting[Item]], bool]) -> list[Waiting[Item]]:
        taken = [
            work.pop(number)
            for work in (self._waiting, self._held)
            for number in [number for number, waiting in work.items() if unwanted(waiting)]
        ]
        for waiting in taken:
            self._count(waiting, -1)
        return taken

    def _count(self, waiting: Waiting[Item], change: int) -> None:
        if waiting.urgency is Urgency.NORMAL:
            self._queued[0] += change
        elif waiting.urgency is Urgency.BATCH:
            self._queued[1 if waiting.deadline_ms < waiting.expires_at_ms else 2] += change
