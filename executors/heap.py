"""Priority heap of work that waits for a slot: who starts next.

Pure; time is an argument (epoch ms). Urgent work goes first, then by class; inside a class the
earliest deadline, then the order of arrival. Four things temper that: work may be held until a
moment, work that has time yields the last slot, work that has waited long gets a share of the
starts, so that nothing starves, and work of the group that was started last (its adapter) may pass
others of its class, within bounds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from enum import IntEnum
from typing import Generic, TypeVar

import msgspec

from executors.ordering import Ordering
from executors.slots import Slots

Item = TypeVar("Item")

AGED_MS = 30_000
"""Work that has waited this long is aged: half of what clients often wait for an answer."""
AGED_EVERY = 8
"""Of this many starts one goes to the oldest aged work. So what has waited 30 s with n aged ahead
of it starts within 8 (n + 1) starts, and a deep batch backlog, all of it aged, costs urgent work
at most an eighth: a quarter made urgent work queue on nodes half full of it."""
GROUP_STARTS = 32
"""How often in a row the first in order is passed by work of the group that was started last: four
times the slots of a usual node, so that the change from one adapter to the next, during which both
run, is a fifth of the time at most."""
GROUP_TIME_SHARE = 0.25
"""Work is passed only in the first quarter of its time: an objective must not pay for grouping."""


class Urgency(IntEnum):
    """The class of work, most urgent first."""

    EXPRESS = 0
    REALTIME = 1
    NORMAL = 2
    BATCH = 3

    @property
    def urgent(self) -> bool:
        """Return whether a slot is kept for such work."""
        return self <= _REALTIME


# Looking a member up in its class takes longer than what it is compared for.
_REALTIME, _NORMAL, _BATCH = Urgency.REALTIME, Urgency.NORMAL, Urgency.BATCH


# No NamedTuple: in Python 3.10 it cannot be generic. No dataclass: a frozen one takes 3 us to make.
class Waiting(msgspec.Struct, Generic[Item], frozen=True):
    """One piece of work in the heap.

    Attributes:
        since_ms: when it could first have started.
        group: what runs well beside others of the same.
    """

    item: Item
    urgency: Urgency
    deadline_ms: float
    expires_at_ms: float
    since_ms: float
    group: Hashable = None


class Heap(Generic[Item]):
    """Work that waits for a slot or for its moment."""

    def __init__(self) -> None:
        self._arrivals = 0
        self._starts_since_aged = 0
        # In order of arrival, so that the oldest is found at once (a dict would search for it).
        self._waiting: OrderedDict[int, Waiting[Item]] = OrderedDict()
        # Of these, what takes the last slot too, in the order in which it came to; None until the
        # first work that yields has come: until then all of it does.
        self._pressing: OrderedDict[int, None] | None = None
        # Until when work is held, or yields the last slot; what yields has an order of its own.
        self._until: dict[int, float] = {}
        self._moments = Ordering(self._until)
        self._yielding = Ordering(self._until)
        self._order = Ordering(self._waiting)
        # None until the first work of a group has come: until then all of it is of one.
        self._members: dict[tuple[Urgency, Hashable], Ordering] | None = None
        self._group: Hashable = None
        self._passed = 0
        self._held: dict[int, Waiting[Item]] = {}
        self._queued = [0, 0, 0]

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
        yields_until_ms: float = 0.0,
        group: Hashable = None,
    ) -> None:
        """Add work: held until `not_before_ms`, or yielding last slots until `yields_until_ms`.

        What is held does not yield once it is let go: it has waited.
        """
        self._release(now_ms)  # so that the waiting stay in order of when they could first start
        self._arrivals = number = self._arrivals + 1
        since = max(now_ms, not_before_ms)
        waiting = Waiting(item, urgency, deadline_ms, expires_at_ms, since, group)
        self._count(waiting, 1)
        is_held = not_before_ms > now_ms
        until_ms = not_before_ms if is_held else yields_until_ms
        if until_ms > now_ms:
            self._until[number] = until_ms
            self._moments.add((until_ms,), number)
        if is_held:
            self._held[number] = waiting
        else:
            self._admit(number, waiting)

    def pop_for(self, slots: Slots, now_ms: float) -> Waiting[Item] | None:
        """Take out what starts next where one of these slots is free; None if nothing may start."""
        if slots.free(urgent=False):
            return self.pop(now_ms, last=slots.last)
        return self.pop_urgent(now_ms)

    def pop(self, now_ms: float, *, last: bool = False) -> Waiting[Item] | None:
        """Take out what starts next, whatever its class; None if nothing may start.

        For the `last` slot only what does not yield it.
        """
        self._release(now_ms)
        first = self._first(last=last) if self._waiting else None
        if first is None:
            return None
        oldest = next(iter(self._waiting if self._pressing is None or not last else self._pressing))
        aged = now_ms - self._waiting[oldest].since_ms >= AGED_MS
        its_turn = aged and self._starts_since_aged >= AGED_EVERY - 1
        number = oldest if its_turn else self._next(first, now_ms, last=last)
        self._starts_since_aged = 0 if number == oldest and aged else self._starts_since_aged + 1
        return self._leave(number)

    def pop_urgent(self, now_ms: float) -> Waiting[Item] | None:
        """Take out the most urgent work for the last slot if it is urgent, else None."""
        self._release(now_ms)
        number = self._first(last=True)
        if number is None or not self._waiting[number].urgency.urgent:
            return None
        return self._leave(number)

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
    def yielding(self) -> int:
        """Return how many left the last slot to others when it was last looked."""
        return len(self._until) - len(self._held)

    @property
    def next_moment_ms(self) -> float | None:
        """Return when held work is let go, or some no longer yields; None if neither comes."""
        number = self._moments.first()
        return None if number is None else self._until[number]

    def _first(self, *, last: bool) -> int | None:
        """Return the first in order; for the last slot, the first that does not yield it."""
        number = self._order.first()
        if last or not self._until:
            return number
        yielding = self._yielding.first()
        if number is None or yielding is None:
            return yielding if number is None else number
        return min(number, yielding, key=self._rank)

    def _rank(self, number: int) -> tuple[float, ...]:
        waiting = self._waiting[number]
        return waiting.urgency, waiting.deadline_ms, number

    def _next(self, number: int, now_ms: float, *, last: bool) -> int:
        """Return the first in order, or one of the last group that may pass it."""
        first = self._waiting[number]
        if first.urgency.urgent:
            return number  # by deadline alone, and what it belongs to does not turn the others
        if first.group != self._group and self._members and self._may_be_passed(first, now_ms):
            members = self._members.get((first.urgency, self._group))
            member = None if members is None else members.first()
            if member is not None and not (last and member in self._until):
                self._passed += 1
                return member
        self._group, self._passed = first.group, 0
        return number

    def _may_be_passed(self, first: Waiting[Item], now_ms: float) -> bool:
        its_time_ms = GROUP_TIME_SHARE * (first.deadline_ms - first.since_ms)
        return self._passed < GROUP_STARTS and now_ms - first.since_ms < its_time_ms

    def _admit(self, number: int, waiting: Waiting[Item]) -> None:
        self._waiting[number] = waiting
        order = self._order
        if number in self._until:
            order = self._yielding
            if self._pressing is None:
                self._pressing = OrderedDict.fromkeys(one for one in self._waiting if one != number)
        elif self._pressing is not None:
            self._pressing[number] = None
        order.add((waiting.urgency, waiting.deadline_ms), number)
        if self._members is not None:
            self._join(self._members, number)
        elif waiting.group is not None:
            self._members = {}
            for one in self._waiting:
                self._join(self._members, one)

    def _join(self, groups: dict[tuple[Urgency, Hashable], Ordering], number: int) -> None:
        waiting = self._waiting[number]
        kind = waiting.urgency, waiting.group
        members = groups.get(kind)
        if members is None:
            members = groups[kind] = Ordering(self._waiting)
        members.add((waiting.deadline_ms,), number)

    def _leave(self, number: int) -> Waiting[Item]:
        waiting = self._waiting.pop(number)
        self._count(waiting, -1)
        if self._until and self._forget(number):
            self._yielding.live -= 1
        else:
            self._order.live -= 1
            if self._pressing is not None:
                del self._pressing[number]
        if self._members is not None:
            kind = waiting.urgency, waiting.group
            members = self._members[kind]
            members.live -= 1
            if not members.live:
                del self._members[kind]
        return waiting

    def _release(self, now_ms: float) -> None:
        if not self._until:  # so it is nearly always, and this is asked at every start
            return
        while (number := self._moments.first()) is not None and self._until[number] <= now_ms:
            self._forget(number)
            held = self._held.pop(number, None)
            if held is not None:
                self._admit(number, held)
                continue
            self._yielding.live -= 1
            waiting = self._waiting[number]
            self._order.add((waiting.urgency, waiting.deadline_ms), number)
            if self._pressing is not None:
                self._pressing[number] = None

    def _forget(self, number: int) -> bool:
        """Forget until when it is held or yields; return whether it did."""
        if self._until.pop(number, None) is None:
            return False
        self._moments.live -= 1
        return True

    def _take(self, unwanted: Callable[[Waiting[Item]], bool]) -> list[Waiting[Item]]:
        started = [number for number, waiting in self._waiting.items() if unwanted(waiting)]
        held = [number for number, waiting in self._held.items() if unwanted(waiting)]
        taken = [self._leave(number) for number in started]
        for number in held:
            self._forget(number)
            taken.append(self._held.pop(number))
            self._count(taken[-1], -1)
        return taken

    def _count(self, waiting: Waiting[Item], change: int) -> None:
        if waiting.urgency is _NORMAL:
            self._queued[0] += change
        elif waiting.urgency is _BATCH:
            self._queued[1 if waiting.deadline_ms < waiting.expires_at_ms else 2] += change
