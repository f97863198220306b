from __future__ import annotations

from typing import Any

from schemas.control import LagSample, NodeReport, NodeState, PartitionLag
from schemas.orders import Order
from schemas.pools import ComputeType
from streams.control.nodes import FORGET_AFTER_S, Heard, Memo, finished_by, forgotten, node_states

NOW_S = 100.0


def sample(*finished: int) -> LagSample:
    lags = tuple(PartitionLag(routed=90, finished=n, unfinished=90 - n) for n in finished)
    return LagSample(
        probed_at_ms=0,
        took_ms=3.0,
        pools={"gpu": lags},
        requests_included=(),
        retry_included=(),
    )


SAMPLE = sample(0, 0)


def report(node: str = "a", **fields: Any) -> NodeReport:
    known: dict[str, Any] = {
        "node": node,
        "pool": "gpu",
        "compute_type": ComputeType.GPU,
        "generation": 1,
        "state": "ready",
        "slots": 4,
        "busy": 1,
        "partitions": (0, 1),
        "backend": "emulated",
        "latency_mean_ms": 50.0,
        "reported_at_ms": 0,
    }
    return NodeReport(**{**known, **fields})


def states(*reports: NodeReport, **silent_s: float) -> dict[str, NodeState]:
    heard = {r.node: Heard(NOW_S - silent_s.get(r.node, 0.1)) for r in reports}
    return {state.id: state for state in node_states(reports, {}, heard, SAMPLE, NOW_S, {})}


def test_a_node_that_reports_is_live_with_all_it_said() -> None:
    state = states(report(blocked=(1,), models=("m",)))["a"]
    assert state == NodeState(
        id="a",
        pool="gpu",
        live=True,
        slots=4,
        busy=1,
        partitions=(0, 1),
        blocked=(1,),
        models=("m",),
        latency_ms=50.0,
    )


def test_after_three_silent_seconds_it_is_down_and_owns_nothing() -> None:
    assert states(report(), a=2.9)["a"].live
    down = states(report(), a=3.1)["a"]
    assert (down.live, down.partitions, down.reason) == (False, (), "no report for 3 s")


def test_a_node_never_heard_by_this_worker_is_down() -> None:
    (state,) = node_states([report()], {}, {}, SAMPLE, NOW_S, {})
    assert not state.live


def test_of_two_nodes_that_claim_a_partition_the_higher_generation_has_it() -> None:
    fleet = states(
        report("a", generation=7, partitions=(0, 1)), report("b", generation=8, partitions=(1, 2))
    )
    assert (fleet["a"].partitions, fleet["b"].partitions) == ((0,), (1, 2))


def test_a_dead_node_keeps_no_partition_from_a_live_one_of_a_new_group() -> None:
    fleet = states(report("a", generation=50), report("b", generation=1), a=10.0)
    assert fleet["b"].partitions == (0, 1)


def test_pools_number_their_partitions_apart() -> None:
    fleet = states(report("a"), report("b", pool="cpu", compute_type=ComputeType.CPU))
    assert fleet["a"].partitions == fleet["b"].partitions == (0, 1)


def test_draining_is_live_and_says_so_and_other_states_are_down_with_their_reason() -> None:
    fleet = states(
        report("drains", state="draining", partitions=(0,)),
        report("failed", state="refused", reason="self-test: wrong text", partitions=(1,)),
        report("warms", state="starting", partitions=()),
    )
    assert (fleet["drains"].live, fleet["drains"].draining) == (True, True)
    assert (fleet["failed"].live, fleet["failed"].reason) == (
        False,
        "refused: self-test: wrong text",
    )
    assert fleet["failed"].partitions == ()
    assert (fleet["warms"].live, fleet["warms"].reason) == (False, "starting")


def test_a_drained_node_is_draining_and_says_who_drained_it_and_why() -> None:
    drain = Order(what="drain", who="ana", why="new disk", at_ms=1)
    orders = {"node/a": drain, "node/dead": drain, "node/absent": drain, "pool/b": drain}
    heard = {"a": Heard(NOW_S), "b": Heard(NOW_S)}
    reports = (report("a", partitions=(0,)), report("b", partitions=(1,)), report("dead"))
    fleet = {state.id: state for state in node_states(reports, orders, heard, SAMPLE, NOW_S, {})}
    assert fleet.keys() == {"a", "b", "dead"}
    assert (fleet["a"].live, fleet["a"].draining, fleet["a"].partitions) == (True, True, (0,))
    assert fleet["a"].reason == "drained by ana: new disk"
    assert (fleet["b"].draining, fleet["b"].reason) == (False, "")
    assert (fleet["dead"].draining, fleet["dead"].reason) == (True, "no report for 3 s")


def test_nodes_come_in_the_order_of_their_ids_whatever_the_table_does() -> None:
    assert list(states(report("c"), report("a"), report("b"))) == ["a", "b", "c"]


def test_a_node_is_forgotten_after_ten_minutes_of_silence_as_this_worker_knows_it() -> None:
    heard = {"a": Heard(NOW_S - FORGET_AFTER_S - 1), "b": Heard(NOW_S - 5)}
    assert forgotten(["a", "b", "never"], heard, NOW_S - 60, NOW_S) == ["a"]
    assert forgotten(["never"], heard, NOW_S - FORGET_AFTER_S - 1, NOW_S) == ["never"]


def test_slots_that_were_busy_at_the_last_report_are_freed_by_what_finished_since() -> None:
    said = report(busy=4, partitions=(0, 1))
    heard = {"a": Heard(NOW_S, finished_by(said, sample(10, 20)))}

    memo: Memo = {}

    def busy(now: LagSample) -> int:
        (state,) = node_states([said], {}, heard, now, NOW_S, memo)
        return state.busy

    assert busy(sample(10, 20)) == 4
    assert busy(sample(12, 21)) == 1
    assert busy(sample(15, 29)) == 0
    assert busy(sample(0, 0)) == 4  # the group was deleted: its counts say nothing of slots


def test_a_state_is_made_anew_only_when_something_of_it_has_changed() -> None:
    memo: Memo = {}
    first, second = report("a", partitions=(0,)), report("b", partitions=(1,))
    heard = {"a": Heard(NOW_S), "b": Heard(NOW_S)}

    def read(*reports: NodeReport, now_s: float = NOW_S) -> dict[str, NodeState]:
        return {s.id: s for s in node_states(reports, {}, heard, SAMPLE, now_s, memo)}

    before = read(first, second)
    assert read(first, second)["a"] is before["a"]
    after = read(first, second.model_copy(update={"busy": 2}))
    assert after["a"] is before["a"]
    assert after["b"].busy == 2
    taken = second.model_copy(update={"partitions": (0, 1), "generation": 2})
    assert read(first, taken)["a"].partitions == ()
    assert not read(first, second, now_s=NOW_S + 4)["a"].live
    assert read(first, second)["a"] == before["a"]
