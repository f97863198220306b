"""The heap against a plain list that is searched anew for every answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from executors.heap import AGED_EVERY, AGED_MS, Heap, Urgency


@dataclass
class PlainHeap:
    """What the heap promises, written for reading instead of speed."""

    work: list[tuple[int, Urgency, float, float, float]] = field(default_factory=list)
    starts: int = 0

    def ready(self, now: float) -> list[tuple[int, Urgency, float, float, float]]:
        return [entry for entry in self.work if entry[4] <= now]

    def pop(self, now: float, *, urgent_only: bool) -> int | None:
        ready = self.ready(now)
        if not ready:
            return None
        best = min(ready, key=lambda entry: (entry[1], entry[2], entry[0]))
        if urgent_only:
            if best[1] > Urgency.REALTIME:
                return None
            self.work.remove(best)
            return best[0]
        oldest = min(ready, key=lambda entry: (entry[4], entry[0]))
        aged = now - oldest[4] >= AGED_MS
        chosen = oldest if aged and self.starts >= AGED_EVERY - 1 else best
        self.starts = 0 if aged and chosen is oldest else self.starts + 1
        self.work.remove(chosen)
        return chosen[0]

    def expire(self, now: float) -> set[int]:
        gone = {entry[0] for entry in self.work if entry[3] <= now}
        self.work = [entry for entry in self.work if entry[3] > now]
        return gone


steps = st.one_of(
    st.tuples(
        st.just("push"),
        st.sampled_from(Urgency),
        st.integers(0, 5),
        st.integers(1, 100_000),
        st.sampled_from([0, 0, 0, 500, 40_000]),
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
            case ("push", Urgency() as urgency, int() as deadline, int() as lives, int() as hold):
                expires = now + lives
                heap.push(
                    number,
                    urgency,
                    deadline_ms=deadline,
                    expires_at_ms=expires,
                    now_ms=now,
                    not_before_ms=now + hold,
                )
                plain.work.append((number, urgency, deadline, expires, now + hold))
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
