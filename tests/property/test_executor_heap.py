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

    def next(self, ready: list[Entry], now: float) -> Entry:
        first = self.first(ready)
        if first.urgency.urgent:
            return first
        alike = [e for e in ready if e.urgency == first.urgency and e.group == self.group]
        young = now - first.since < GROUP_TIME_SHARE * (first.deadline - first.since)
        if first not in alike and alike and young and self.passed < GROUP_STARTS:
            self.passed += 1
            return self.first(alike)
        self.group, self.passed = first.group, 0
        return first

    def pop(self, now: float, *, urgent_only: bool) -> int | None:
        ready = self.ready(now)
        if not ready:
            return None
        if urgent_only:
            first = self.first(ready)
            if not first.urgency.urgent:
                return None
            self.work.remove(first)
            return first.number
        oldest = min(ready, key=lambda entry: (entry.since, entry.number))
        aged = now - oldest.since >= AGED_MS
        turn = aged and self.starts >= AGED_EVERY - 1
        chosen = oldest if turn else self.next(ready, now)
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
        st.sampled_from([None, "code", "news"]),
    ),
    st.tuples(st.just("pop")),
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
                None | str() as group,
            ):
                expires, deadline = now + lives, now + due
                heap.push(
                    number,
                    urgency,
                    deadline_ms=deadline,
                    expires_at_ms=expires,
                    now_ms=now,
                    not_before_ms=now + hold,
                    group=group,
                )
                plain.work.append(Entry(number, urgency, deadline, expires, now + hold, group))
            case ("pop",):
                waiting = heap.pop(now)
                assert (waiting and waiting.item) == plain.pop(now, urgent_only=False)
            case ("urgent",):
                waiting = heap.pop_urgent(now)
                assert (waiting and waiting.item) == plain.pop(now, urgent_only=True)
            case ("expire",):
                assert {gone.item for gone in heap.take_expired(now)} == plain.expire(now)
            case ("wait", int() as span):
                now += span
        assert len(heap) == len(plain.work)
