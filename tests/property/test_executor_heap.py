"""The heap against a plain list that is searched anew for every answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from executors.heap import (
    AGED_EVERY,
    AGED_MS,
    GROUP_STARTS,
    GROUP_TIME_SHARE,
    Heap,
    Urgency,
)


class Entry(NamedTuple):
    number: int
    urgency: Urgency
    deadline: float
    expires: float
    since: float
    yields_until: float
    group: str | None


@dataclass
class PlainHeap:
    """What the heap promises, written for reading instead of speed."""

    work: list[Entry] = field(default_factory=list)
    starts: int = 0
    group: str | None = None
    passed: int = 0

    def ready(self, now: float) -> list[Entry]:
        return [entry for entry in self.work if entry.since <= now]

    def first(self, ready: list[Entry]) -> Entry:
        return min(ready, key=lambda entry: (entry.urgency, entry.deadline, entry.number))

    def next(self, ready: list[Entry], pressing: list[Entry], now: float, *, last: bool) -> Entry:
        first = self.first(pressing if last else ready)
        if first.urgency.urgent:
            return first
        alike = [e for e in ready if e.urgency == first.urgency and e.group == self.group]
        young = now - first.since < GROUP_TIME_SHARE * (first.deadline - first.since)
        if first not in alike and alike and young and self.passed < GROUP_STARTS:
            member = self.first(alike)
            if not last or member in pressing:
                self.passed += 1
                return member
        self.group, self.passed = first.group, 0
        return first

    def pop(self, now: float, *, last: bool = False, urgent_only: bool = False) -> int | None:
        ready = self.ready(now)
        pressing = [entry for entry in ready if entry.yields_until <= now]
        if not (pressing if last or urgent_only else ready):
            return None
        if urgent_only:
            first = self.first(pressing)
            if not first.urgency.urgent:
                return None
            self.work.remove(first)
            return first.number
        if last:  # that has pressed longest
            oldest = min(pressing, key=lambda e: (max(e.since, e.yields_until), e.number))
        else:
            oldest = min(ready, key=lambda entry: (entry.since, entry.number))
        aged = now - oldest.since >= AGED_MS
        turn = aged and self.starts >= AGED_EVERY - 1
        chosen = oldest if turn else self.next(ready, pressing, now, last=last)
        self.starts = 0 if aged and chosen is oldest else self.starts + 1
        self.work.remove(chosen)
        return chosen.number

    def expire(self, now: float) -> set[int]:
        gone = {entry.number for entry in self.work if entry.expires <= now}
        self.work = [entry for entry in self.work if entry.expires > now]
        return gone


steps = st.one_of(
    st.tuples(
        st.just("push"),
        st.sampled_from(Urgency),
        st.sampled_from([0, 1, 2_000, 100_000]),
        st.integers(1, 100_000),
        st.sampled_from([0, 0, 0, 500, 40_000]),
        st.sampled_from([0, 0, 1, 500, 50_000]),
        st.sampled_from([None, "code", "news"]),
    ),
    st.tuples(st.just("pop")),
    st.tuples(st.just("last")),
    st.tuples(st.just("urgent")),
    st.tuples(st.just("expire")),
    st.tuples(st.just("wait"), st.sampled_from([1, 499, 500, 10_000, 30_000])),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=60))
def test_it_answers_as_the_plain_one_does(plan: list[tuple[object, ...]]) -> None:
    heap: Heap[int] = Heap()
    plain = PlainHeap()
    now = 0.0
    for number, step in enumerate(plan):
        match step:
            case (
                "push",
                Urgency() as urgency,
                int() as due,
                int() as lives,
                int() as hold,
                int() as yields,
                None | str() as group,
            ):
                expires, deadline, until = now + lives, now + due, now + yields
                yields_until = 0.0 if hold else until  # what was held has waited
                heap.push(
                    number,
                    urgency,
                    deadline_ms=deadline,
                    expires_at_ms=expires,
                    now_ms=now,
                    not_before_ms=now + hold,
                    yields_until_ms=until,
                    group=group,
                )
                entry = Entry(number, urgency, deadline, expires, now + hold, yields_until, group)
                plain.work.append(entry)
            case ("pop",):
                waiting = heap.pop(now)
                assert (waiting and waiting.item) == plain.pop(now)
            case ("last",):
                waiting = heap.pop(now, last=True)
                assert (waiting and waiting.item) == plain.pop(now, last=True)
            case ("urgent",):
                waiting = heap.pop_urgent(now)
                assert (waiting and waiting.item) == plain.pop(now, urgent_only=True)
            case ("expire",):
                assert {gone.item for gone in heap.take_expired(now)} == plain.expire(now)
            case ("wait", int() as span):
                now += span
        assert len(heap) == len(plain.work)
