"""One worker's turn: what it takes for news, when it speaks, how the tables follow the record."""

from __future__ import annotations

import random
from typing import Any

import pytest

from schemas.control import Freeze, LagSample, NodeReport, PartitionLag, Snapshot
from schemas.errors import FormatError
from schemas.message import encode
from schemas.orders import Order
from schemas.pools import DEFAULT_POOLS, ComputeType
from streams.control.desk import Desk
from streams.control.orders import OrderBook
from streams.control.tables import Tables
from streams.control.term import Term, ThresholdRow
from streams.policy.controllers import CONTROLLERS

END = 100
"""Where both topics ended when the worker took its turn, at 0 s."""


class Worker:
    """A desk on plain dictionaries, on duty in a term of generation 7 with threshold 10."""

    def __init__(self, known: frozenset[str] = frozenset(), book: OrderBook | None = None) -> None:
        self.tables = Tables({}, {}, {}, {})
        self.desk = Desk(self.tables, DEFAULT_POOLS, CONTROLLERS["article"])
        self.desk.take_duty(END, END, 0.0)
        row = ThresholdRow(generation=7, threshold=10)
        self.desk.begin_term(Term(row, book or OrderBook(), known, 0.0))

    def report(self, at_s: float, offset: int = END, node: str = "a") -> None:
        report = NodeReport(
            node=node,
            pool="gpu",
            compute_type=ComputeType.GPU,
            generation=1,
            state="ready",
            slots=1,
            busy=0,
            partitions=(0,),
            backend="emulated",
            latency_mean_ms=50,
            reported_at_ms=0,
        )
        self.desk.report(offset, node.encode(), encode(report), at_s)

    def sample(
        self, at_s: float, offset: int = END, gpu: int = 0, probed_s: float | None = None
    ) -> None:
        pools = {
            name: (PartitionLag(routed=n, finished=0, unfinished=n),)
            for name, n in (("gpu", gpu), ("cpu", 0), ("npu", 0))
        }
        sample = LagSample(
            probed_at_ms=round((at_s if probed_s is None else probed_s) * 1000),
            took_ms=3,
            pools=pools,
            requests_included=(),
            retry_included=(),
        )
        self.desk.sample(offset, b"lag", encode(sample), at_s)

    def order(self, offset: int, about: str, what: str, **fields: Any) -> None:
        order = Order(what=what, who="ana", why="test", at_ms=offset, **fields)
        self.desk.order(offset, about.encode(), encode(order), 0.0)

    def said(self, at_s: float) -> Snapshot | None:
        return self.desk.snapshot(1, 0, at_s)

    def threshold(self, at_s: float) -> int:
        said = self.said(at_s)
        assert said is not None
        return said.threshold


def test_a_report_that_stood_before_the_turn_fills_the_table_but_proves_no_life() -> None:
    worker = Worker()
    worker.report(3.1, offset=END - 1)
    worker.sample(3.2)
    snapshot = worker.said(3.2)
    assert snapshot is not None
    assert [(node.id, node.live) for node in snapshot.nodes] == [("a", False)]
    worker.report(3.3, offset=END + 5)
    assert [node.live for node in (worker.said(3.3) or snapshot).nodes] == [True]


def test_nothing_is_said_before_a_sample_of_the_own_turn() -> None:
    worker = Worker()
    worker.sample(3.5, offset=END - 1)
    assert worker.said(3.5) is None
    worker.sample(3.6)
    assert worker.said(3.6) is not None


def test_nothing_is_said_while_a_known_node_may_still_report() -> None:
    worker = Worker(known=frozenset({"a"}))
    worker.sample(0.1)
    assert worker.said(0.2) is None
    worker.report(0.3)
    assert worker.said(0.3) is not None


def test_the_threshold_table_follows_the_record_and_steps_once_a_second() -> None:
    worker = Worker()
    seen = []
    for tenth in range(36):
        worker.sample(tenth / 10, gpu=20)
        row = worker.tables.threshold
        assert row is not None
        seen.append(row.threshold)
    assert [seen.index(value) for value in (10, 9, 8, 7)] == [0, 10, 20, 30]
    assert min(seen) == 7


def test_seconds_missed_in_a_pause_are_not_made_up_for() -> None:
    worker = Worker()
    worker.sample(0.0, gpu=20)
    for at_s in (30.0, 30.1, 30.2):
        worker.sample(at_s, gpu=20)
    row = worker.tables.threshold
    assert row is not None
    assert row.threshold == 9


def test_the_threshold_steps_at_each_tenth_sample_however_late_each_arrives() -> None:
    worker = Worker()
    late = random.Random(1)
    stepped_at = []
    for tenth in range(300):
        before = worker.tables.threshold
        worker.sample(tenth / 10 + late.uniform(0.01, 0.11), gpu=20, probed_s=tenth / 10)
        if before is not None and worker.tables.threshold != before:
            stepped_at.append(tenth)
    assert stepped_at == [10, 20, 30, 40, 50, 60, 70, 80]  # and 2 is the floor


@pytest.mark.parametrize(
    ("set_by_s", "next_at"), [(-3600.0, 40), (-1.5, 40), (1.5, 24), (3600.0, 24)]
)
def test_a_clock_that_was_set_costs_one_step_and_no_more(set_by_s: float, next_at: int) -> None:
    worker = Worker()
    seen = []
    for tenth in range(next_at + 22):
        probed_s = tenth / 10 + (set_by_s if tenth > 23 else 0.0)
        worker.sample(tenth / 10, gpu=20, probed_s=probed_s)
        row = worker.tables.threshold
        assert row is not None
        seen.append(row.threshold)
    stepped_at = [seen.index(value) for value in (10, 9, 8, 7, 6, 5)]
    assert stepped_at == [0, 10, 20, next_at, next_at + 10, next_at + 20]


def test_what_a_paused_worker_sampled_long_ago_steps_nothing() -> None:
    worker = Worker()
    seen = []
    for tenth in range(41):
        worker.sample(tenth / 10, gpu=20)
        if tenth == 14:
            worker.sample(tenth / 10, gpu=20, probed_s=-7.0)
        row = worker.tables.threshold
        assert row is not None
        seen.append(row.threshold)
    assert [seen.index(value) for value in (10, 9, 8, 7, 6)] == [0, 10, 20, 30, 40]


def test_after_its_turn_a_worker_says_nothing_and_steps_nothing() -> None:
    worker = Worker()
    worker.sample(3.5)
    worker.desk.leave_duty()
    worker.sample(9.0, gpu=20)
    assert worker.said(9.0) is None
    assert worker.tables.threshold == ThresholdRow(generation=7, threshold=10)


@pytest.mark.parametrize("value", [b"{", b"[]", b"{}", b"\xff", None])
def test_bytes_that_are_no_sample_are_refused_and_change_nothing(value: bytes | None) -> None:
    worker = Worker()
    worker.sample(0.1)
    before = worker.tables.lag
    with pytest.raises(FormatError):
        worker.desk.sample(END + 1, b"lag", value, 0.2)
    assert worker.tables.lag == before


@pytest.mark.parametrize(("key", "value"), [(b"b", b"{}"), (None, None), (b"a", b"nonsense")])
def test_bytes_that_are_no_report_are_refused(key: bytes | None, value: bytes | None) -> None:
    worker = Worker()
    with pytest.raises(FormatError):
        worker.desk.report(END, key, value, 0.1)
    assert worker.tables.reports == []


def test_a_report_under_another_nodes_key_is_refused() -> None:
    source, thief = Worker(), Worker()
    source.report(0.1)
    (report,) = source.tables.reports
    with pytest.raises(FormatError):
        thief.desk.report(END, b"other", encode(report), 0.1)


def test_readiness_is_to_speak_or_to_stand_by() -> None:
    desk = Worker().desk
    assert desk.unready(1.0) is not None  # on duty, nothing said yet
    desk.spoke(1.0)
    assert desk.unready(2.9) is None
    assert desk.unready(3.1) is not None
    desk.leave_duty()
    assert desk.unready(3.2) == "joining"
    desk.stand_by()
    assert desk.unready(3.3) is None


def test_orders_show_in_the_next_snapshot_and_their_end_too() -> None:
    worker = Worker()
    worker.report(0.0)
    worker.sample(0.1)
    worker.order(0, "node/a", "drain")
    worker.order(1, "pool/cpu", "pause")
    worker.order(2, "threshold", "freeze", threshold=25)
    said = worker.said(0.2)
    assert said is not None
    assert [node.draining for node in said.nodes] == [True]
    assert [name for name, pool in said.pools.items() if pool.paused] == ["cpu"]
    assert (said.threshold, said.freeze) == (25, Freeze(who="ana", why="test", at_ms=2))
    assert said.orders_included == 3
    worker.order(3, "node/a", "resume")
    worker.desk.order(4, b"pool/cpu", None, 0.0)
    worker.order(5, "threshold", "release")
    after = worker.said(0.3)
    assert after is not None
    assert [node.draining for node in after.nodes] == [False]
    assert not any(pool.paused for pool in after.pools.values())
    assert (after.threshold, after.freeze, after.orders_included) == (25, None, 6)


def test_a_freeze_holds_the_threshold_where_it_is_until_it_is_released() -> None:
    worker = Worker()
    worker.sample(0.0, gpu=20)
    worker.sample(1.0, gpu=20)
    worker.order(0, "threshold", "freeze")
    for at_s in (2.0, 3.0, 4.0):
        worker.sample(at_s, gpu=20)
    assert worker.threshold(4.1) == 9
    worker.order(1, "threshold", "release")
    worker.sample(5.0, gpu=20)
    assert worker.threshold(5.1) == 8


def test_an_order_that_comes_between_the_reading_of_the_topic_and_the_first_sample_is_kept() -> (
    None
):
    drain = Order(what="drain", who="ana", why="read from the topic", at_ms=0)
    worker = Worker(book=OrderBook(read=2, standing={"node/a": drain}))
    worker.order(0, "node/a", "drain")  # Faust hands out again what the topic's reader has read
    worker.order(1, "node/b", "drain")  # ... what it found ended stays ended
    worker.order(2, "pool/cpu", "pause")
    worker.order(3, "threshold", "freeze", threshold=30)
    worker.sample(3.5)
    said = worker.said(3.6)
    assert said is not None
    assert worker.tables.book.standing.keys() == {"node/a", "pool/cpu", "threshold"}
    assert worker.tables.book.standing["node/a"].why == "read from the topic"
    assert (said.threshold, said.orders_included) == (30, 4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"node/a", b"nonsense"),
        (b"node/", None),
        (b"gpu-1", None),
        (b"node/\xff", None),
        (None, None),
        (b"threshold", encode(Order(what="drain", who="a", at_ms=0))),
        (b"pool/cpu", encode(Order(what="release", who="a", at_ms=0))),
        (b"threshold", encode(Order(what="freeze", who="a", at_ms=0, threshold=1))),
        (b"threshold", encode(Order(what="freeze", who="a", at_ms=0, threshold=1001))),
    ],
)
def test_bytes_that_are_no_order_are_refused_before_and_during_a_term(
    key: bytes | None, value: bytes | None
) -> None:
    worker = Worker()
    with pytest.raises(FormatError):
        worker.desk.order(0, key, value, 0.0)
    worker.sample(3.5)
    with pytest.raises(FormatError):
        worker.desk.order(0, key, value, 0.0)
    assert worker.tables.book == OrderBook()


def test_a_worker_is_deaf_while_what_it_put_on_lag_does_not_come_back() -> None:
    worker = Worker()
    desk = worker.desk
    assert desk.deaf_s(9.0) == 0
    desk.asked(10.0)
    desk.asked(10.1)
    assert desk.deaf_s(12.0) == 2.0
    worker.sample(12.0)
    assert desk.deaf_s(13.0) == 0
    desk.asked(13.0)
    desk.unasked()  # the broker is away: nothing can come back
    assert desk.deaf_s(99.0) == 0
    desk.asked(99.0)
    desk.leave_duty()
    assert desk.deaf_s(199.0) == 0


def test_a_sample_that_a_table_does_not_take_has_not_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker()
    worker.order(0, "pool/cpu", "pause")
    worker.desk.asked(1.0)

    def refuse(_: object) -> None:
        raise RuntimeError("the changelog has no partition")

    with monkeypatch.context() as broken:
        broken.setattr(worker.tables, "fold_book", refuse)
        with pytest.raises(RuntimeError):
            worker.sample(3.5)
    assert worker.desk.deaf_s(4.0) == 3.0
    worker.sample(4.0)
    assert worker.desk.deaf_s(5.0) == 0
    said = worker.said(5.0)
    assert said is not None
    assert said.pools["cpu"].paused, "the order was lost with the sample"


@pytest.mark.parametrize("wrong", [{"partitions": (-1,)}, {"slots": -1}, {"busy": -1}])
def test_a_report_with_numbers_below_zero_is_none_of_ours(wrong: dict[str, Any]) -> None:
    worker = Worker()
    worker.report(0.1)
    (said,) = worker.tables.reports
    value = encode(said.model_copy(update=wrong))
    assert not worker.desk.glance(END, b"a", value, 0.2)
    with pytest.raises(FormatError):
        worker.desk.report(END, b"a", value, 0.2)
    assert worker.tables.reports == [said]
