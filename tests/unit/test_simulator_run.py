"""What happens in virtual time is what one computes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import asdict

from lab.simulator.control import Control
from lab.simulator.fleet import Delays, Slowdown, Spell, read_fleet
from lab.simulator.reading import Reading, Snapshots, Told
from lab.simulator.run import Course, End, Ended, simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import workload
from schemas.control import (
    LagSample,
    NodeState,
    PartitionLag,
    PartitionState,
    PoolState,
    Snapshot,
)
from schemas.message import Message, decode, encode
from schemas.pools import CPU, GPU, ComputeType
from schemas.request import Priority
from schemas.value import Value
from streams.control.rates import fold_sample
from streams.control.snapshot import fleet_view
from streams.policy import POLICIES, policy
from streams.policy.node import Node
from tests.simulated import AT_ONCE, fleet, pool, request

GPU_ONLY, OVERFLOW = policy("gpu-only"), policy("overflow")
TWENTY_S = [Arrival(number * 50.0, 1000, 100) for number in range(400)]


def latencies(course: Course) -> dict[int, float]:
    return {one.asked.number: pytest.approx(one.latency_ms) for one in course.ended}


def costs(ended: list[Ended]) -> list[tuple[int, float]]:
    return sorted((one.asked.number, one.cost) for one in ended)


def test_one_slot_serves_one_class_in_the_order_of_arrival() -> None:
    requests = [request(number, at_ms) for number, at_ms in enumerate((0, 10, 20, 300, 350))]
    course = simulate(fleet(pool(GPU)), requests, GPU_ONLY)
    # 100 ms each: starts at 0, 100, 200, 300, 400.
    assert latencies(course) == {0: 100, 1: 190, 2: 280, 3: 100, 4: 150}
    assert [one.cost for one in course.ended] == [pytest.approx(0.1)] * 5


def test_work_waits_in_the_order_of_the_executors_heap() -> None:
    requests = [
        request(0, 0),
        request(1, 10),
        request(2, 11, Priority.NORMAL, slo_ms=9_000),
        request(3, 12, Priority.NORMAL, slo_ms=5_000),
        request(4, 13, Priority.REALTIME),
    ]
    course = simulate(fleet(pool(GPU)), requests, GPU_ONLY)
    assert [one.asked.number for one in course.ended] == [0, 4, 3, 2, 1]


def test_work_that_yields_leaves_the_last_slot_and_takes_it_when_its_moment_has_come() -> None:
    kept = pool(GPU, slots=2).model_copy(update={"express": True})
    yielding = replace(GPU_ONLY, yields=lambda features, *_: 0 if features.slo_ms == 150 else 40)
    requests = [
        request(0, 0, Priority.REALTIME, slo_ms=900),
        request(1, 10, Priority.REALTIME, slo_ms=900),
        request(2, 20, Priority.REALTIME, slo_ms=150),
        request(3, 150, Priority.REALTIME, slo_ms=900),
        request(4, 300, Priority.REALTIME, slo_ms=900),
    ]
    course = simulate(fleet(kept), requests, yielding)
    # The third takes the last slot at 20, so that the second waits for the first one's end; the
    # fourth takes it at 190, when its 40 ms are over; the fifth finds both slots free.
    assert latencies(course) == {0: 100, 1: 190, 2: 100, 3: 140, 4: 100}


def test_an_express_pool_keeps_a_slot_for_urgent_work() -> None:
    kept = pool(GPU, slots=2).model_copy(update={"express": True})
    requests = [request(0, 0), request(1, 1), request(2, 2, Priority.REALTIME)]
    assert latencies(simulate(fleet(kept), requests, GPU_ONLY)) == {0: 100, 1: 199, 2: 100}


def test_each_delay_of_the_way_counts() -> None:
    delays = Delays(routing_ms=30, fetch_ms=7)
    course = simulate(
        fleet(pool(GPU, slots=9), delays=delays),
        [request(number, at_ms) for number, at_ms in enumerate((0, 10, 25, 200))],
        GPU_ONLY,
    )
    # The second and third wait for the first one's transaction, and share the next.
    assert latencies(course) == {0: 137, 1: 157, 2: 142, 3: 137}


def test_overflow_fills_the_gpus_slots_then_its_queue_then_the_cheapest_free_slot() -> None:
    hardware = fleet(pool(GPU, slots=2, run_ms=1000), pool(CPU, slots=3, run_ms=4000, cost=0.1))
    requests = [request(number, 10.0 + number / 100) for number in range(18)]
    course = simulate(hardware, requests, policy("static-threshold"))
    where = {one.asked.number: one.pool for one in course.ended}
    # 2 run and 10 wait at the gpu; 3 find a free cpu; the rest waits for the gpu.
    assert [number for number, name in where.items() if name == CPU] == [12, 13, 14]
    assert sum(one.cost for one in course.ended) == pytest.approx(15 * 1.0 + 3 * 0.4)


def test_a_fleet_of_gpus_alone_does_the_same_under_every_policy() -> None:
    hardware = fleet(*(one for one in read_fleet().pools if one.name == GPU), delays=Delays())
    requests = workload(TWENTY_S, 1)
    expected = simulate(hardware, requests, GPU_ONLY).ended
    for chosen in POLICIES.values():
        ended = simulate(hardware, requests, chosen).ended
        if chosen.name == "predictive":  # the same pool, but nodes of its own choice
            assert costs(ended) == costs(expected)
            continue
        assert ended == expected


def test_the_same_requests_take_the_same_course_twice() -> None:
    requests = workload(TWENTY_S, 1, speed=2.0)
    assert simulate(read_fleet(), requests, OVERFLOW) == simulate(read_fleet(), requests, OVERFLOW)


def test_a_slow_node_is_slow_for_runs_that_start_then() -> None:
    slow = Slowdown(node="gpu-0", from_s=1, to_s=2, factor=3)
    requests = [request(number, at_ms) for number, at_ms in enumerate((950, 1500, 2500))]
    course = simulate(fleet(pool(GPU), slowdowns=(slow,)), requests, GPU_ONLY)
    assert latencies(course) == {0: 100, 1: 300, 2: 100}


def test_what_an_outage_cuts_short_runs_again_and_is_paid_twice() -> None:
    away = Spell(node="gpu-0", from_s=1, to_s=2)
    requests = [request(0, 960), request(1, 1500)]
    course = simulate(fleet(pool(GPU), outages=(away,)), requests, GPU_ONLY)
    assert latencies(course) == {0: 1140, 1: 700}
    assert course.ended[0].cost == pytest.approx(0.140)


def test_a_node_that_is_silent_for_three_seconds_gets_nothing_until_it_is_back() -> None:
    away = Spell(node="gpu-1", from_s=10, to_s=30)
    calm = [request(number, number * 1000.0) for number in range(14)]
    # Twice what one node can do: if the other counted as live, its shorter queue would draw work.
    rush = [request(14 + number, 14_000 + number * 50.0) for number in range(100)]
    last = request(114, 60_000)
    course = simulate(fleet(pool(GPU, nodes=2), outages=(away,)), [*calm, *rush, last], GPU_ONLY)
    nodes = {one.asked.number: one.node for one in course.ended}
    assert {nodes[one.number] for one in rush} == {"gpu-0"}
    delayed = {one.asked.number for one in course.ended if one.latency_ms > 100.1} & set(range(14))
    assert delayed  # a router hears of it late: idle nodes are alike, and it prefers this one
    assert all(number >= 10 for number in delayed)
    assert nodes[last.number] == "gpu-1"


def test_work_that_runs_out_of_time_is_not_run() -> None:
    requests = [request(0, 0), request(1, 1, expires_at_ms=50), request(2, 60, expires_at_ms=60)]
    course = simulate(fleet(pool(GPU)), requests, GPU_ONLY)
    assert {one.asked.number: one.end for one in course.ended} == {
        0: End.RAN,
        1: End.EXPIRED,  # at the node
        2: End.EXPIRED,  # at the router
    }
    assert sum(one.cost for one in course.ended) == pytest.approx(0.1)


def test_a_request_that_no_pool_may_run_ends_as_unroutable() -> None:
    pinned = request(0, 0, pinned=(ComputeType.NPU,))
    (ended,) = simulate(fleet(pool(GPU)), [pinned], OVERFLOW).ended
    assert (ended.end, ended.pool, ended.cost) == (End.UNROUTABLE, "", 0.0)


def test_finish_rates_are_those_that_control_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[Reading] = []
    read = Control._read

    def reading(control: Control, now_ms: int) -> Reading:
        readings.append(read(control, now_ms))
        return readings[-1]

    monkeypatch.setattr(Control, "_read", reading)
    simulate(read_fleet(), workload(TWENTY_S[:200], 1), OVERFLOW)
    row = None
    for one in readings[1:]:  # the first stands for what was before
        counts = tuple(
            PartitionLag(routed=routed, finished=finished, unfinished=routed - finished)
            for routed, finished in zip(one.routed, one.finished, strict=True)
        )
        row = fold_sample(
            row,
            LagSample(
                probed_at_ms=one.probed_at_ms,
                took_ms=0,
                pools={"all": counts},
                requests_included=(),
                retry_included=(),
            ),
        )
        assert one.rates == tuple(pace.finish_rate for pace in row.paces["all"])
    assert max(readings[-1].rates) > 0


def test_depths_at_a_tick_are_those_of_controls_own_view(monkeypatch: pytest.MonkeyPatch) -> None:
    away = Spell(node="gpu-1", from_s=4, to_s=12)
    hardware = fleet(pool(GPU, nodes=2, run_ms=3_000), pool(CPU, slots=2, cost=0.1, run_ms=9_000),
                     outages=(away,), delays=Delays())  # fmt: skip
    compared = []
    tick = Control._tick

    def ticking(control: Control, reading: Reading) -> Reading:
        seen = fleet_view(control._snapshots.of(reading), hardware.priced)
        compared.append([(control.depth(name, reading), seen.pool(name).queue_depth)
                         for name in (GPU, CPU)])  # fmt: skip
        return tick(control, reading)

    monkeypatch.setattr(Control, "_tick", ticking)
    simulate(hardware, [request(number, number * 300) for number in range(60)], OVERFLOW)
    assert all(ours == theirs for depths in compared for ours, theirs in depths)
    assert max(depths[0][0] for depths in compared) > 10


def test_a_view_reads_the_simulators_snapshot_as_it_reads_controls_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away = Spell(node="gpu-1", from_s=4, to_s=12)
    hardware = fleet(pool(GPU, nodes=2, slots=2, run_ms=3_000), pool(CPU, slots=2, cost=0.1),
                     outages=(away,), delays=Delays())  # fmt: skip
    told: list[Told] = []
    make = Snapshots.of

    def making(snapshots: Snapshots, reading: Reading) -> Told:
        told.append(make(snapshots, reading))
        return told[-1]

    monkeypatch.setattr(Snapshots, "of", making)
    simulate(hardware, [request(number, number * 300) for number in range(60)], OVERFLOW)
    bare, read = (fleet_view(told[0], hardware.priced) for _ in range(2))
    for one in told:
        bare.load(one, {}, 150.0)
        read.load(decode(Snapshot, encode(message_of(one))), {}, 150.0)
        for name, pool_view in bare.pools.items():
            other = read.pools[name]
            assert {*pool_view.estimates.told} == {*other.estimates.told}
            assert (pool_view.queue_depth, pool_view.unfinished) == (
                other.queue_depth,
                other.unfinished,
            )
            assert [*map(facts, pool_view.live.values())] == [*map(facts, other.live.values())]
    assert {len(one.nodes) - sum(node.live for node in one.nodes) for one in told} == {0, 1}


def message_of(told: Told) -> Snapshot:
    """Return the message that a bare snapshot stands for; all of its names are the message's."""
    pools = {
        name: PoolState(
            routed_total=0,
            finished_total=0,
            **named(PoolState, one)
            | {"partitions": [named(PartitionState, part) for part in one.partitions]},
        )
        for name, one in told.pools.items()
    }
    nodes = [named(NodeState, one) for one in told.nodes]
    return Snapshot(**named(Snapshot, told) | {"pools": pools, "nodes": nodes})


def named(kind: type[Message], bare: Value) -> dict[str, Any]:
    fields = asdict(bare)
    assert fields.keys() <= kind.model_fields.keys()
    return fields


def facts(node: Node) -> list[object]:
    return [getattr(node, name) for name in node.__slots__ if name != "said"]


@pytest.mark.parametrize("apart_ms", [20, 500])
def test_what_was_routed_beyond_a_snapshot_counts_once(apart_ms: float) -> None:
    old = AT_ONCE.model_copy(update={"snapshot_ms": 100})
    hardware = fleet(
        pool(GPU, run_ms=50_000), pool(CPU, slots=3, run_ms=50_000, cost=0.1), delays=old
    )
    requests = [request(number, number * apart_ms) for number in range(30)]
    course = simulate(hardware, requests, policy("static-threshold"))
    where = {one.asked.number: one.pool for one in course.ended}
    # One runs and ten wait at the gpu, whether the snapshots know of them or not yet.
    assert [number for number, name in where.items() if name == CPU] == [11, 12, 13]


def test_a_slot_that_came_free_since_its_nodes_report_is_free() -> None:
    hardware = fleet(pool(GPU, run_ms=50_000), pool(CPU, run_ms=100, cost=0.1))
    filling = [request(number, 0) for number in range(11)]
    # The cpu reports at 500 ms that it is busy, and has finished by the probe at 600 ms.
    requests = [*filling, request(11, 450), request(12, 650)]
    course = simulate(hardware, requests, policy("static-threshold"))
    assert {one.asked.number for one in course.ended if one.pool == CPU} == {11, 12}


def test_a_conversation_stays_at_the_node_that_has_its_cache() -> None:
    requests = [
        request(0, 0),
        request(1, 10, conversation="c"),
        request(2, 5_000, conversation="c"),
        request(3, 10_000),
    ]
    ended = simulate(fleet(pool(GPU, nodes=2)), requests, OVERFLOW).ended
    nodes = {one.asked.number: one.node for one in ended}
    assert nodes[0] == nodes[3] != nodes[1]  # idle, a router prefers the one
    assert nodes[2] == nodes[1]
