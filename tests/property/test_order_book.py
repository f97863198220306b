"""The order book is what the last record on each thing says, however often records are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FormatError
from schemas.message import decode, encode
from schemas.orders import Order, Verb
from streams.control.orders import OrderBook, fold_order, order_record

ABOUT = ("node/a", "node/b", "pool/cpu", "threshold", "nonsense", "node/")

orders = st.builds(
    Order,
    what=st.sampled_from(Verb),
    who=st.sampled_from(["ana", "bo"]),
    why=st.sampled_from(["", "test"]),
    at_ms=st.integers(0, 9),
    threshold=st.none() | st.integers(0, 1_100),
)
values = st.none() | st.just(b"no order") | orders.map(encode)
topics = st.lists(st.tuples(st.sampled_from(ABOUT), values), max_size=30)
"""Key and value of each record, in the order of their offsets."""


def fold(book: OrderBook, topic: list[tuple[str, bytes | None]], offsets: range) -> OrderBook:
    for offset in offsets:
        about, value = topic[offset]
        try:
            book = fold_order(book, order_record(offset, about.encode(), value))
        except FormatError:
            continue
    return book


def expected(topic: list[tuple[str, bytes | None]]) -> dict[str, Order]:
    """Return what stands by looking at the last order on each thing alone."""
    stands = {"node": Verb.DRAIN, "pool": Verb.PAUSE, "threshold": Verb.FREEZE}
    ends = {"node": Verb.RESUME, "pool": Verb.RESUME, "threshold": Verb.RELEASE}
    found: dict[str, Order] = {}
    for about in ABOUT[:4]:
        kind = about.partition("/")[0]
        for key, value in reversed(topic):
            if key != about or value == b"no order":
                continue
            order = None if value is None else decode(Order, value)
            if order is None or order.what is ends[kind]:
                break
            if order.what is stands[kind] and (
                order.threshold is None or 2 <= order.threshold <= 1_000
            ):
                found[about] = order
                break
    return found


@given(topics)
def test_the_last_order_on_each_thing_stands_and_what_is_none_changes_nothing(
    topic: list[tuple[str, bytes | None]],
) -> None:
    book = fold(OrderBook(), topic, range(len(topic)))
    assert book.standing == expected(topic)


@given(topics, st.lists(st.tuples(st.integers(0, 10), st.integers(0, 30)), max_size=5))
def test_records_that_are_read_again_change_nothing(
    topic: list[tuple[str, bytes | None]], restarts: list[tuple[int, int]]
) -> None:
    book, frontier = OrderBook(), 0
    for back, ahead in restarts:
        begin = max(0, frontier - back)  # a consumer that starts anew goes back, never ahead
        end = min(len(topic), begin + ahead)
        book = fold(book, topic, range(begin, end))
        frontier = max(frontier, end)
    book = fold(book, topic, range(frontier, len(topic)))
    assert book == fold(OrderBook(), topic, range(len(topic)))


@given(topics)
def test_the_table_row_reads_back_as_it_was_written(
    topic: list[tuple[str, bytes | None]],
) -> None:
    book = fold(OrderBook(), topic, range(len(topic)))
    assert decode(OrderBook, encode(book)) == book
