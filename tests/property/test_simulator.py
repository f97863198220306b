"""Whatever the workload, fleet and timetable: every request ends once, no slot is lent twice."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.simulator.fleet import Delays, Fleet, Slowdown, Spell
from lab.simulator.run import End, simulate
from lab.simulator.workload import Asked
from schemas.pools import CPU, GPU, NPU
from schemas.request import Priority
from streams.policy import POLICIES, Policy
from tests.simulated import DAY_MS, fleet, pool, request

RUN_MS = {GPU: 50.0, NPU: 120.0, CPU: 400.0}
COST = {GPU: 1.0, NPU: 0.3, CPU: 0.1}

delays = st.builds(
    Delays,
    probe_every_ms=st.sampled_from((20, 100)),
    snapshot_ms=st.sampled_from((0, 40, 3_000)),
    report_every_ms=st.sampled_from((100, 500)),
    routing_ms=st.sampled_from((0, 10, 50)),
    fetch_ms=st.sampled_from((0, 5)),
    result_ms=st.sampled_from((0, 10)),
)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    names = [GPU, *draw(st.sets(st.sampled_from((CPU, NPU))))]
    pools = [
        pool(name, draw(st.integers(1, 3)), draw(st.integers(1, 3)), RUN_MS[name], COST[name])
        for name in names
    ]
    nodes = st.sampled_from([f"{one.name}-{n}" for one in pools for n in range(one.nodes)])
    from_s = st.floats(0, 5)
    outages = draw(st.lists(st.tuples(nodes, from_s), max_size=2, unique_by=lambda one: one[0]))
    slow = draw(st.lists(st.tuples(nodes, from_s), max_size=2))
    return fleet(
        *pools,
        delays=draw(delays),
        outages=tuple(Spell(node=node, from_s=at, to_s=at + 4) for node, at in outages),
        slowdowns=tuple(Slowdown(node=n, from_s=at, to_s=at + 1, factor=4) for n, at in slow),
    )


@st.composite
def workloads(draw: st.DrawFn) -> list[Asked]:
    at_ms = sorted(draw(st.lists(st.floats(0, 6_000), min_size=1, max_size=60)))
    return [
        request(
            number,
            at,
            draw(st.sampled_from(Priority)),
            draw(st.sampled_from((None, 20.0, 300.0, 2_000.0))),
            lora=draw(st.booleans()),
            conversation=draw(st.sampled_from((None, "c0", "c1"))),
            expires_at_ms=draw(st.sampled_from((int(at) + 200, DAY_MS))),
            key_hash=draw(st.integers(0, 2**32 - 1)),
        )
        for number, at in enumerate(at_ms)
    ]


@settings(max_examples=60, deadline=None)
@given(fleets(), workloads(), st.sampled_from(list(POLICIES.values())))
def test_every_request_ends_once_and_no_slot_is_lent_twice(
    hardware: Fleet, requests: list[Asked], policy: Policy
) -> None:
    ended = simulate(hardware, requests, policy).ended
    assert sorted(one.asked.number for one in ended) == [one.number for one in requests]
    slots = {f"{one.name}-{n}": one.slots for one in hardware.pools for n in range(one.nodes)}
    moves: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for one in ended:
        if one.end is not End.RAN:
            continue
        end_ms = one.asked.at_ms + one.latency_ms
        assert one.started_ms >= one.asked.at_ms
        # Rounded, for an end and the start that it makes room for are one moment.
        moves[one.node] += [(round(one.started_ms, 3), 1), (round(end_ms, 3), -1)]
        least = COST[one.pool] * RUN_MS[one.pool] / 1000
        assert one.cost >= least - 1e-9
    for node, changes in moves.items():
        running = 0
        for _, change in sorted(changes):
            running += change
            assert 0 <= running <= slots[node] or change < 0


@settings(max_examples=30, deadline=None)
@given(fleets(), workloads())
def test_without_outages_every_run_is_paid_once_at_its_pools_price(
    hardware: Fleet, requests: list[Asked]
) -> None:
    calm = hardware.model_copy(update={"outages": (), "slowdowns": ()})
    for one in simulate(calm, requests, POLICIES["overflow"]).ended:
        spent = COST[one.pool] * RUN_MS[one.pool] / 1000 if one.end is End.RAN else 0.0
        assert one.cost == pytest.approx(spent)
