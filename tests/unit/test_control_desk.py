"""One worker's turn: what it takes for news, when it speaks, how the tables follow the record."""

from __future__ import annotations

import pytest

from schemas.control import LagSample, NodeReport, PartitionLag, Snapshot
from schemas.errors import FormatError
from schemas.message import encode
from schemas.pools import DEFAULT_POOLS, ComputeType
from streams.control.desk import Desk
from streams.control.tables import Tables
from streams.control.term import Term, ThresholdRow

END = 100
"""Where both topics ended when the worker took its turn, at 0 s."""


class Worker:
    """A desk on plain dictionaries, on duty in a term of generation 7 with threshold 10."""

    def __init__(self, known: frozenset[str] = frozenset()) -> None:
        self.tables = Tables({}, {}, {})
        self.desk = Desk(self.tables, DEFAULT_POOLS)
        self.desk.take_duty(END, END, 0.0)
        self.desk.begin_term(Term(ThresholdRow(generation=7, threshold=10), known, 0.0))

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

    def sample(self, at_s: float, offset: int = END, gpu: int = 0) -> None:
        pools = {
            name: (PartitionLag(routed=n, finished=0, unfinished=n),)
            for name, n in (("gpu", gpu), ("cpu", 0), ("npu", 0))
        }
        sample = LagSample(
            probed_at_ms=int(at_s * 1000),
            took_ms=3,
            pools=pools,
            requests_included=(),
            retry_included=(),
        )
        self.desk.sample(offset, b"lag", encode(sample), at_s)

    def said(self, at_s: float) -> Snapshot | None:
        return self.desk.snapshot(1, 0, at_s)


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
