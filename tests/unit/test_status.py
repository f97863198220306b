"""`overspill status` says exactly what is there: the document, its ages and its zeros."""

from __future__ import annotations

from typing import Any

from schemas.capability import Capability
from schemas.control import (
    Freeze,
    LagSample,
    NodeCondition,
    NodeReport,
    NodeState,
    PartitionLag,
    PoolState,
    Snapshot,
)
from schemas.orders import Order
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS, ComputeType
from streams.control.orders import OrderBook
from streams.control.rates import LagRow, Pace
from streams.control.reports import Proof, proofs
from streams.status import SystemStatus, status_json, status_of

NOW_MS = 1_000_000
NODES = (
    NodeState(id="g", pool="gpu", live=True, slots=2, partitions=(0,), latency_ms=50.0),
    NodeState(id="down", pool="gpu", live=False, slots=8, latency_ms=9.0),
)


def sample(gpu: int = 0) -> LagSample:
    nothing = PartitionLag(routed=0, finished=0, unfinished=0)
    lag = PartitionLag(
        routed=100 + gpu,
        finished=100,
        unfinished=gpu,
        routed_mflop=9_000 + gpu * 500,
        finished_mflop=9_000,
        unfinished_mflop=gpu * 500,
        oldest_at_ms=NOW_MS - 2_500 if gpu else None,
    )
    return LagSample(
        probed_at_ms=NOW_MS,
        took_ms=3.0,
        pools={"gpu": (lag,), "cpu": (nothing,), "npu": (nothing,)},
        requests_included=(7,),
        retry_included=(-1,),
        dead=1,
        finished_dead=2,
        expired=1,
        finished_expired=1,
        duplicate=1,
    )


def snapshot(age_ms: int) -> Snapshot:
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=0,
        published_at_ms=NOW_MS - age_ms,
        threshold=17,
        pools={},
        nodes=NODES,
        requests_included=(),
        retry_included=(),
    )


def row(age_ms: int) -> LagRow:
    """Return a lag table whose gpu partition gets 4 records a second and finishes 2."""
    measured = sample().model_copy(update={"probed_at_ms": NOW_MS - age_ms})
    pace = Pace(arriving=4.0, finishing=2.0, finishing_mflop=1_250.0)
    return LagRow(sample=measured, paces={"gpu": (pace,), "cpu": (Pace(),), "npu": (Pace(),)})


def status(
    gpu: int = 0,
    age_ms: int | None = 100,
    waiting: tuple[int, int] = (0, 0),
    book: OrderBook | None = None,
    measured: LagRow | None = None,
    reports: tuple[NodeReport, ...] = (),
    **said: Any,
) -> SystemStatus:
    last = None if age_ms is None else snapshot(age_ms).model_copy(update=said)
    book = book or OrderBook()
    heard = {report.node: report for report in reports}
    return status_of(sample(gpu), measured, last, book, waiting, DEFAULT_POOLS, NOW_MS, heard)


def capability(**said: Any) -> Capability:
    found = {"device": "d", "model": "m", "max_concurrency": 1, "validated_at_ms": NOW_MS}
    return Capability(**{**found, **said})


def report(name: str, *proven: Capability) -> NodeReport:
    return NodeReport(
        node=name, pool="gpu", compute_type=ComputeType.GPU, generation=1,
        state=NodeCondition.READY, slots=1, busy=0, backend="onnx", latency_mean_ms=1.0,
        capabilities=proven, reported_at_ms=NOW_MS,
    )  # fmt: skip


def test_the_document_has_these_fields_and_no_other() -> None:
    nothing = {
        "unfinished": 0,
        "queue_depth": 0,
        "slots": 0,
        "free_slots": 0,
        "nodes": 0,
        "avg_latency_ms": 0.0,
        "routed_total": 0,
        "finished_total": 0,
        "paused": False,
        "oldest_age_s": 0.0,
        "arrival_rate": None,
        "finish_rate": None,
        "drain_s": 0.0,
        "work_gflops": 0.0,
        "work_s": 0.0,
    }
    assert status_json(status(gpu=5, waiting=(4, 6))) == {
        "mode": "normal",
        "threshold": 17,
        "control_age_s": 0.1,
        "undecided": 4,
        "in_retry": 6,
        "orders": [],
        "pools": {
            "gpu": {
                "unfinished": 5,
                "queue_depth": 3,
                "slots": 2,
                "free_slots": 0,
                "nodes": 1,
                "avg_latency_ms": 50.0,
                "routed_total": 105,
                "finished_total": 100,
                "paused": False,
                "oldest_age_s": 2.5,
                "arrival_rate": None,
                "finish_rate": None,
                "drain_s": None,
                "work_gflops": 2.5,
                "work_s": 0.125,
            },
            "cpu": nothing,
            "npu": nothing,
        },
        "capabilities": {},
        "dead_letters_total": 3,
        "expired_total": 2,
        "duplicates_total": 1,
        "models_revision": 0,
    }


def test_counts_are_exact_whatever_became_of_the_control_plane() -> None:
    for age_ms in (100, 10_000, 60_000, None):
        assert status(gpu=5, age_ms=age_ms).pools["gpu"].unfinished == 5
        assert status(gpu=0, age_ms=age_ms).pools["gpu"].queue_depth == 0


def test_mode_is_what_routers_make_of_the_snapshots_age() -> None:
    ages = {100: Mode.NORMAL, 2_000: Mode.STALE, 29_999: Mode.STALE, 30_000: Mode.BLIND}
    assert {age: status(age_ms=age).mode for age in ages} == ages
    assert (status(age_ms=None).mode, status(age_ms=None).control_age_s) == (Mode.BLIND, None)


def test_nodes_not_heard_of_for_long_are_not_shown_as_if_they_lived() -> None:
    assert status(age_ms=29_000).pools["gpu"].nodes == 1
    blind = status(gpu=5, age_ms=31_000)
    assert (blind.nodes, blind.pools["gpu"].nodes, blind.pools["gpu"].queue_depth) == ((), 0, 5)


def test_orders_stand_in_it_with_who_and_why_and_whether_the_last_snapshot_obeys_them() -> None:
    def order(what: str, at_ms: int = 7) -> Order:
        return Order(what=what, who="ana", why="test", at_ms=at_ms)

    book = OrderBook(
        read=4,
        standing={
            "node/g": order("drain"),
            "node/absent": order("drain"),
            "pool/cpu": order("pause"),
            "threshold": order("freeze"),
        },
    )
    everything = {
        "nodes": (NODES[0].model_copy(update={"draining": True}),),
        "pools": {"cpu": PoolState(paused=True, routed_total=0, finished_total=0, partitions=())},
        "freeze": Freeze(who="ana", why="test", at_ms=7),
    }

    def in_force(age_ms: int | None = 100, **said: Any) -> list[str]:
        document = status_json(status(age_ms=age_ms, book=book, **said))
        assert [order["about"] for order in document["orders"]] == sorted(book.standing)
        return [order["about"] for order in document["orders"] if order["in_force"]]

    assert in_force() == []  # no control worker has read them
    assert in_force(**everything) == ["node/g", "pool/cpu", "threshold"]
    assert in_force(age_ms=31_000, **everything) == []  # routers are blind and obey none
    assert in_force(age_ms=None) == []
    other = {**everything, "freeze": Freeze(who="ana", why="test", at_ms=6)}
    assert in_force(**other) == ["node/g", "pool/cpu"]
    obeyed = status_json(status(book=book, **everything))
    assert obeyed["pools"]["cpu"]["paused"]
    assert obeyed["orders"][1] == {
        "about": "node/g", "version": 1, "what": "drain", "who": "ana", "why": "test", "at_ms": 7,
        "threshold": None, "in_force": True,
    }  # fmt: skip


def test_an_age_is_never_negative() -> None:
    assert status(age_ms=-500).control_age_s == 0


def test_rates_are_those_that_control_measured_lately_and_none_else() -> None:
    shown = status(gpu=5, measured=row(age_ms=0)).pools["gpu"].lag
    assert (shown.arrival_rate, shown.finish_rate) == (4.0, 2.0)
    assert (shown.drain_s, shown.work_s) == (2.5, 2.0)
    old = status(gpu=5, measured=row(age_ms=2_000)).pools["gpu"].lag
    assert (old.arrival_rate, old.finish_rate, old.drain_s) == (None, None, None)
    assert (old.unfinished, old.work_gflops) == (5, 2.5)


def test_the_whole_table_comes_with_the_document_if_asked() -> None:
    shown = status(gpu=5)
    assert "lag" not in status_json(shown)
    document = status_json(shown, lag=True)["lag"]
    assert set(document) == {"nodes", "partitions"}
    assert document["nodes"]["g"] == document["partitions"]["gpu"][0]
    assert document["nodes"]["g"]["unfinished"] == 5
    assert set(document["nodes"]) == {"g"}
    assert [len(lines) for lines in document["partitions"].values()] == [1, 1, 1]


def test_what_live_nodes_have_proven_stands_in_the_document_and_of_others_nothing() -> None:
    proven = capability(golden_error=0.0003, tokenizer_digest="sha256:77")
    shown = status(reports=(report("g", proven), report("down", proven), report("new", proven)))
    assert status_json(shown)["capabilities"] == {"g": [proven.model_dump()]}
    assert status(reports=(report("g", proven),), age_ms=31_000).proven == {}


def test_nodes_that_agree_are_one_line_and_those_that_do_not_stand_apart() -> None:
    nodes = tuple(NODES[0].model_copy(update={"id": name}) for name in "abcd")
    found = proofs(
        nodes,
        {
            "a": (capability(golden_error=0.001, tokenizer_digest="x"),),
            "b": (
                capability(golden_error=0.002, tokenizer_digest="x", validated_at_ms=NOW_MS - 9000),
                capability(model="ahead", validated_at_ms=NOW_MS + 9000),
            ),
            "c": (capability(golden_error=0.0, tokenizer_digest="y"),),
            "d": (capability(tokenizer_digest="x"),),
        },
        NOW_MS,
    )
    assert found == [
        Proof("gpu", "ahead", 1, None, None, None, 0),
        Proof("gpu", "m", 2, None, "x", 0.002, 9),
        Proof("gpu", "m", 1, None, "x", None, 0),
        Proof("gpu", "m", 1, None, "y", 0, 0),
    ]
