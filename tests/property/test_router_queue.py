"""What one transaction takes of a lane's queue: in order, as much as fits, and always something."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from runtime.kafka.records import Undecodable
from streams.router.queue import BATCH_BYTES_MAX, RECORDS_MAX, Queue

FEW_HEADERS = st.lists(
    st.tuples(st.just("name"), st.sampled_from([None, b"", b"v" * 60_000])), max_size=2
)


@dataclass
class Sized:
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    offset: int = 0

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


BODIES = st.sampled_from([None, b"", b"x" * 300, b"x" * 100_000, b"x" * (BATCH_BYTES_MAX + 1)])
RUNS = st.lists(
    st.tuples(
        st.sampled_from([0, 1]),
        st.lists(st.builds(Sized, BODIES, BODIES, FEW_HEADERS), min_size=1, max_size=8),
        st.sampled_from([1, 1, 1, 150]),
    ),
    max_size=8,
)


@given(RUNS, st.integers(0, 3))
def test_a_transaction_takes_what_fits_in_order_and_at_least_one(
    offered: list[tuple[int, list[Sized], int]], takes_between: int
) -> None:
    queue = Queue()
    waiting: list[tuple[int, Sized]] = []

    def take() -> None:
        taken = [(run.source, record) for run in queue.take() for record in run.records]
        expected = waiting[: len(taken)]
        del waiting[: len(taken)]
        assert [id(record) for _, record in taken] == [id(record) for _, record in expected]
        assert [source for source, _ in taken] == [source for source, _ in expected]
        size = sum(record.size for _, record in taken)  # type: ignore[union-attr]
        assert len(taken) <= RECORDS_MAX
        assert size <= BATCH_BYTES_MAX or len(taken) == 1
        if waiting:
            assert taken
            assert len(taken) == RECORDS_MAX or size + waiting[0][1].size > BATCH_BYTES_MAX

    for source, records, times in offered:
        run = [record for record in records for _ in range(times)]
        queue.offer(source, run)  # type: ignore[arg-type]
        waiting += [(source, record) for record in run]
        for _ in range(takes_between):
            take()
        assert queue.records == len(waiting)
        assert queue.bytes == sum(record.size for _, record in waiting)
    while waiting:
        take()
    assert (queue.records, queue.bytes, queue.take()) == (0, 0, [])


def test_what_cannot_be_read_weighs_nothing_and_is_taken_all_the_same() -> None:
    queue = Queue()
    queue.offer(0, [Undecodable(5, 0, "broken")])
    assert queue.bytes == 0
    [run] = queue.take()
    assert [record.offset for record in run.records] == [5]
