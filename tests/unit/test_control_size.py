"""500 nodes: what control says of them is small, is made quickly, and writes few table rows."""

from __future__ import annotations

import time

import pytest

from schemas.control import LagSample, NodeCondition, NodeReport, PartitionLag, Snapshot
from schemas.message import encode
from schemas.pools import DEFAULT_POOLS, ComputeType
from streams.control.desk import Desk
from streams.control.orders import OrderBook
from streams.control.snapshot import NodeBytes, encode_snapshot
from streams.control.tables import Tables
from streams.control.term import Term, ThresholdRow
from streams.policy.controllers import CONTROLLERS

NODES = 500
PARTITIONS = 32
SNAPSHOT_BYTES_MAX = 200 * 1000
MADE_WITHIN_S = 0.15
"""Of CPU: ten times what it takes here; a step over all pairs of nodes took a second."""
MODELS = {
    "gpu": ("meta-llama/Llama-3.1-70B-Instruct",),
    "cpu": ("microsoft/Phi-3-mini-4k-instruct", "BAAI/bge-small-en-v1.5"),
    "npu": ("microsoft/Phi-3-mini-4k-instruct",),
}
COUNTED = 10**9


def report(number: int, completed: int = 0) -> NodeReport:
    pool = tuple(MODELS)[number % 3]
    return NodeReport(
        node=f"ip-10-0-{number // 256}-{number % 256}.eu-west-1.compute.internal-{40000 + number}",
        pool=pool,
        compute_type=ComputeType(pool),
        generation=7,
        state="ready",
        slots=8,
        busy=number % 9,
        partitions=(number // 3,) if number // 3 < PARTITIONS else (),
        models=MODELS[pool],
        adapters=tuple(f"customer-{n:04d}-lora" for n in range(8)) if pool == "gpu" else (),
        backend="openai",
        engine="vllm 0.11.0",
        device="NVIDIA H100 80GB HBM3",
        latency_mean_ms=1000 / (number + 3),
        completed=completed,
        reported_at_ms=1_764_441_111_111 + completed,
    )


class Counted(dict[bytes, bytes]):
    """A table that counts its writes."""

    writes = 0

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.writes += 1
        super().__setitem__(key, value)


@pytest.fixture
def rows() -> Counted:
    return Counted()


@pytest.fixture
def desk(rows: Counted) -> Desk:
    desk = Desk(Tables({}, {}, rows, {}), DEFAULT_POOLS, CONTROLLERS["stable"])
    desk.take_duty(0, 0, 0.0)
    desk.begin_term(Term(ThresholdRow(generation=1, threshold=10), OrderBook(), frozenset(), 0.0))
    for number in range(NODES):
        said = report(number)
        desk.report(0, said.node.encode(), encode(said), 4.0)
    lag = PartitionLag(routed=COUNTED + 777, finished=COUNTED, unfinished=777)
    sample = LagSample(
        probed_at_ms=1_764_441_111_111,
        took_ms=4.5,
        pools=dict.fromkeys(MODELS, (lag,) * PARTITIONS),
        requests_included=tuple(range(COUNTED, COUNTED + PARTITIONS)),
        retry_included=tuple(range(COUNTED, COUNTED + PARTITIONS)),
    )
    desk.sample(0, b"lag", encode(sample), 4.0)
    return desk


def said(desk: Desk) -> Snapshot:
    snapshot = desk.snapshot(123_456, 1_764_441_111_131, 4.1)
    assert snapshot is not None
    return snapshot


def test_a_snapshot_of_500_nodes_with_long_names_takes_less_than_200_kb(desk: Desk) -> None:
    snapshot = said(desk)
    assert sum(node.live for node in snapshot.nodes) == NODES
    assert sum(len(node.partitions) for node in snapshot.nodes) == 3 * PARTITIONS
    assert len(encode(snapshot)) < SNAPSHOT_BYTES_MAX


def test_it_is_encoded_the_same_whether_its_nodes_were_encoded_before_or_not(desk: Desk) -> None:
    memo: NodeBytes = {}
    assert encode_snapshot(said(desk), memo) == encode(said(desk))
    again = report(1).model_copy(update={"busy": 7})
    desk.report(1, again.node.encode(), encode(again), 4.05)
    assert encode_snapshot(said(desk), memo) == encode(said(desk))


def test_it_is_made_in_milliseconds(desk: Desk) -> None:
    said(desk)
    began_s = time.process_time()
    said(desk)
    assert time.process_time() - began_s < MADE_WITHIN_S


def test_a_report_that_says_nothing_lasting_writes_no_row_but_counts(
    desk: Desk, rows: Counted
) -> None:
    again = report(1, completed=5).model_copy(update={"busy": 8, "latency_mean_ms": 77.0})
    desk.report(1, again.node.encode(), encode(again), 4.05)
    assert rows.writes == NODES
    state = next(node for node in said(desk).nodes if node.id == again.node)
    assert (state.busy, state.latency_ms) == (8, 77.0)
    drains = again.model_copy(update={"state": NodeCondition.DRAINING})
    desk.report(2, again.node.encode(), encode(drains), 4.06)
    assert rows.writes == NODES + 1


def test_only_what_a_table_needs_has_to_become_an_event(desk: Desk, rows: Counted) -> None:
    def glanced(said: NodeReport, key: bytes | None = None) -> bool:
        return desk.glance(1, key or said.node.encode(), encode(said), 4.05)

    busy = report(1).model_copy(update={"busy": 8})
    assert glanced(busy)
    assert next(node for node in said(desk).nodes if node.id == busy.node).busy == 8
    assert not glanced(busy.model_copy(update={"slots": 9}))
    assert not glanced(busy, key=b"another")
    assert not glanced(busy.model_copy(update={"node": "new"}))
    assert not desk.glance(1, busy.node.encode(), None, 4.05)
    assert not desk.glance(1, busy.node.encode(), b"{", 4.05)
    assert rows.writes == NODES
    desk.leave_duty()
    assert not glanced(busy)


def test_what_was_overtaken_on_its_way_to_the_agent_changes_nothing(
    desk: Desk, rows: Counted
) -> None:
    now = report(1).model_copy(update={"busy": 8})
    key = now.node.encode()
    drained = now.model_copy(update={"state": NodeCondition.DRAINING})
    assert desk.glance(7, key, encode(now), 4.05)
    before = said(desk)
    desk.report(5, key, encode(drained), 4.06)
    desk.report(6, key, None, 4.06)
    assert said(desk) == before
    assert rows.writes == NODES
    desk.report(8, key, encode(drained), 4.06)
    assert next(node for node in said(desk).nodes if node.id == now.node).draining


def test_nothing_is_kept_of_a_node_that_took_its_leave(desk: Desk) -> None:
    memo: NodeBytes = {}
    encode_snapshot(said(desk), memo)
    desk.report(1, report(1).node.encode(), None, 4.05)
    encode_snapshot(said(desk), memo)
    assert report(1).node not in memo
    assert len(memo) == NODES - 1


def test_a_new_turn_goes_by_what_others_wrote_meanwhile(desk: Desk, rows: Counted) -> None:
    assert len(said(desk).nodes) == NODES
    desk.leave_duty()
    kept = report(2).model_copy(update={"slots": 99})
    rows.clear()
    rows[kept.node.encode()] = encode(kept)
    desk.take_duty(10, 10, 5.0)
    row = ThresholdRow(generation=2, threshold=10)
    desk.begin_term(Term(row, OrderBook(), frozenset(), 5.0))
    sample = LagSample(
        probed_at_ms=0, took_ms=1.0, pools={}, requests_included=(), retry_included=()
    )
    desk.sample(10, b"lag", encode(sample), 9.0)
    snapshot = desk.snapshot(1, 0, 9.0)
    assert snapshot is not None
    assert [(node.id, node.slots) for node in snapshot.nodes] == [(kept.node, 99)]
