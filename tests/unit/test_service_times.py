"""What nodes say of their run times, and what control makes of it."""

from __future__ import annotations

import pytest

from executors.heap import Heap, Urgency
from executors.service import FORGET_MS, KINDS_MAX, WINDOW, ServiceTimes
from schemas.message import decode, encode
from schemas.pools import ComputeType
from schemas.request import NUMBER_MAX
from schemas.service import UNKNOWN_SIZE, ServiceTime, size_of
from streams.control.speeds import Measured, speeds_of
from streams.policy.estimates import Estimates


def test_a_node_tells_medians_and_95th_percentiles_a_gflop_of_its_last_runs() -> None:
    times = ServiceTimes()
    for run_ms in (9_999.0, *range(1, WINDOW + 1)):
        times.add("m", 10.0, float(run_ms), 0.0)
    times.add("n", None, 7.0, 0.0)
    assert times.read(0.0) == (
        ServiceTime(model="m", size=size_of(10.0), count=WINDOW, p50=2.0, p95=3.8),
        ServiceTime(model="n", size=UNKNOWN_SIZE, count=1, p50=7.0, p95=7.0),
    )


def test_what_has_not_run_for_ten_minutes_is_forgotten() -> None:
    times = ServiceTimes()
    times.add("m", 10.0, 5.0, 0.0)
    times.add("n", 10.0, 5.0, 1_000.0)
    assert [one.model for one in times.read(FORGET_MS)] == ["m", "n"]
    assert [one.model for one in times.read(FORGET_MS + 1)] == ["n"]


def test_only_so_many_models_and_sizes_are_kept_the_ones_used_last() -> None:
    times = ServiceTimes()
    for number in range(KINDS_MAX):
        times.add(f"m{number}", None, 1.0, 0.0)
    times.add("m0", None, 1.0, 0.0)
    times.add("new", None, 1.0, 0.0)
    told = {one.model for one in times.read(0.0)}
    assert len(told) == KINDS_MAX
    assert "m0" in told
    assert "m1" not in told


@pytest.mark.parametrize("gflops", [5e-324, 1e-100, 1e-9, NUMBER_MAX])
def test_an_estimate_that_cannot_be_right_harms_neither_reports_nor_other_requests(
    gflops: float,
) -> None:
    times = ServiceTimes()
    times.add("m", gflops, 1000.0, 0.0)
    (absurd,) = times.read(0.0)
    assert decode(ServiceTime, encode(absurd)) == absurd
    right = [told(2.0, count=40, size=size_of(known)) for known in (500.0, 1000.0)]
    run = Estimates([absurd, *right]).run("m", 4000.0, 1.0)
    assert 1_000.0 < run.p50_ms < 16_000.0  # 8 s by 80 runs, from which one may lead astray


def told(p50: float, count: int = 20, model: str = "m", size: int = 4) -> ServiceTime:
    return ServiceTime(model=model, size=size, count=count, p50=p50, p95=2 * p50)


def test_control_merges_what_nodes_of_a_compute_type_have_measured() -> None:
    speeds = speeds_of(
        [
            Measured("c1", ComputeType.CPU, (told(4.0, 10), told(9.0, 5, "n"))),
            Measured("c2", ComputeType.CPU, (told(1.0, 20),)),
            Measured("g1", ComputeType.GPU, (told(0.5),)),
            Measured("g2", ComputeType.GPU, ()),
        ]
    )
    assert speeds.service == {
        ComputeType.CPU: (told(2.0, 30), told(9.0, 5, "n")),
        ComputeType.GPU: (told(0.5),),
    }


def test_what_no_run_has_changed_is_the_same_object_as_before() -> None:
    def measured(p50: float) -> list[Measured]:
        return [
            Measured("c1", ComputeType.CPU, (told(4.0), told(p50, model="n"))),
            Measured("g1", ComputeType.GPU, (told(0.5),)),
        ]

    before = speeds_of(measured(9.0))
    now = speeds_of(measured(8.0), before)
    assert now == speeds_of(measured(8.0))
    assert now.service[ComputeType.GPU] is before.service[ComputeType.GPU]
    kept, changed = now.service[ComputeType.CPU]
    assert kept is before.service[ComputeType.CPU][0]
    assert changed.p50 == 8.0


def test_a_node_is_as_slow_as_its_runs_are_beside_the_others() -> None:
    nodes = [Measured(f"c{n}", ComputeType.CPU, (told(2.0),)) for n in range(3)]
    assert speeds_of(nodes).slowness == {}
    slowed = [*nodes, Measured("slow", ComputeType.CPU, (told(6.0), told(90.0, model="own")))]
    found = speeds_of(slowed).slowness
    assert found["slow"] == 3.0
    assert found["c0"] == pytest.approx(2.0 / (10.0 / 3), abs=1 / 16)


def test_a_heap_counts_by_class_what_may_be_passed() -> None:
    heap: Heap[str] = Heap()

    def push(name: str, urgency: Urgency, deadline_ms: float, not_before_ms: float = 0.0) -> None:
        heap.push(
            name,
            urgency,
            deadline_ms=deadline_ms,
            expires_at_ms=100.0,
            now_ms=0.0,
            not_before_ms=not_before_ms,
        )

    push("realtime", Urgency.REALTIME, 50.0)
    push("normal", Urgency.NORMAL, 60.0)
    push("due", Urgency.BATCH, 70.0)
    push("patient", Urgency.BATCH, 100.0)
    push("held", Urgency.BATCH, 100.0, not_before_ms=40.0)
    assert heap.queued == (1, 1, 2)
    assert heap.pop_urgent(0.0) is not None
    assert heap.queued == (1, 1, 2)
    assert heap.pop(0.0) is not None
    assert heap.queued == (0, 1, 2)
    heap.remove(lambda name: name == "held")
    assert heap.queued == (0, 1, 1)
    assert len(heap.take_expired(200.0)) == 2
    assert heap.queued == (0, 0, 0)
