"""What holds for every conversation, whatever becomes of the fleet between its turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import DecisionRow, DecisionsRecord, ViewInputs
from schemas.features import Features
from schemas.metadata import RouterCounts
from schemas.outcomes import Mode, Reason
from schemas.pools import ComputeType
from schemas.request import Priority
from schemas.value import replace
from streams.policy import POLICIES, Decision, View
from streams.router import bindings as router_bindings
from streams.router.bindings import Bindings
from streams.router.rebuild import remember
from streams.router.window import DuplicateWindow
from tests.fleet import NOW_MS, decide, fleet, node, request
from tests.property.test_policy_properties import policies, requests, view_of, worlds

turns = requests.map(
    lambda features: replace(features, conversation="c", expires_at_ms=NOW_MS + 10**6)
)
NODES = ("gpu-1", "gpu-2", "cpu-1", "cpu-2", "npu-1")
calm_fleets = st.builds(
    lambda loads, dead: fleet(
        *(
            node(name, unfinished=load, slots=1, live=name != dead)
            for name, load in zip(NODES, loads, strict=True)
        )
    ),
    st.lists(st.integers(0, 12), min_size=len(NODES), max_size=len(NODES)),
    st.sampled_from([None, None, None, *NODES]),
)
"""Most nodes live, so that turns stay, leave at their price, or are guests."""
calm_turns = st.builds(
    lambda priority, pinned: request(conversation="c", priority=priority, pinned=pinned),
    st.sampled_from([Priority.NORMAL, Priority.BATCH, Priority.REALTIME]),
    st.sampled_from([(), (), (ComputeType.CPU,)]),
)
talks = st.lists(st.tuples(calm_fleets, calm_turns), min_size=1, max_size=8)


def take(bindings: Bindings, features: Features, decision: Decision) -> None:
    """Bind as a router does."""
    if features.conversation and decision.pool is not None and decision.node is not None:
        settles = decision.reason is Reason.STICKY or decision.released != ""
        bindings.bind(features.conversation, (decision.pool, decision.node), settles=settles)


def is_live(view: View, features: Features, excluded: Any) -> bool:
    """Return whether the node of conversation c can take the request, in words of our own."""
    pool_name, node_id = view.bindings["c"]
    pool = view.pool(pool_name)
    node = pool.live.get(node_id)
    return (
        view.mode is not Mode.BLIND
        and pool_name not in excluded
        and not pool.down
        and node is not None
        and not node.draining
        and bool(node.partitions)
        and node.serves(features.model)
        and all(name != node_id or 0 <= until <= NOW_MS for name, until in features.excluded)
    )


def type_of(view: View, pool: str) -> ComputeType:
    return view.pool(pool).compute_type


@given(worlds, turns, policies)
def test_a_live_conversation_is_never_moved_between_compute_types(
    world: dict[str, Any], features: Features, name: str
) -> None:
    view = view_of(world)
    home = view.bindings["c"]
    decision = POLICIES[name].decide(features, view, NOW_MS)
    bindings = Bindings()
    bindings.bind("c", home, settles=True)
    take(bindings, features, decision)
    if not is_live(view, features, decision.excluded):
        return
    bound, _ = bindings.by_conversation["c"]
    assert type_of(view, bound) is type_of(view, home[0])
    urgent = features.priority.value == "realtime" or (features.slo_ms or 50.0) < 50.0
    if not urgent:
        assert decision.pool is not None
        assert type_of(view, decision.pool) is type_of(view, home[0])


@given(worlds, turns, policies)
def test_a_conversation_leaves_a_live_node_only_at_the_stated_price(
    world: dict[str, Any], features: Features, name: str
) -> None:
    view = view_of(world)
    pool, node_id = view.bindings["c"]
    decision = POLICIES[name].decide(features, view, NOW_MS)
    if is_live(view, features, decision.excluded) and "ms to wait" in decision.released:
        assert decision.pool is not None
        assert decision.node is not None
        here = view.pool(pool).live[node_id]
        there = view.pool(decision.pool).live[decision.node]
        assert here.wait_ms > there.wait_ms + there.latency_ms


@given(talks, st.integers(0, 7))
def test_who_takes_over_has_the_bindings_of_who_went(
    talk: list[tuple[View, Features]], forgotten: int
) -> None:
    bindings, records = Bindings(), []
    for number, (view, features) in enumerate(talk):
        view.bindings = bindings.by_conversation
        decision = decide(view, features)
        take(bindings, features, decision)
        records.append(_record(number, features, decision))
    assert _rebuilt(records) == dict(bindings.by_conversation)
    late = records[forgotten:]  # what it reads does not reach back to the first turn
    rows = [row for record in late for row in record.rows if row.node is not None]
    if any(row.outcome == "sticky" or row.released for row in rows):
        assert _rebuilt(late) == dict(bindings.by_conversation)


pauses_ms = st.sampled_from([0, 1, 30, 99, 101, 500])
plain_turns = st.lists(
    st.tuples(pauses_ms, st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3)),
    min_size=1,
    max_size=40,
)


@given(plain_turns, st.integers(0, 40))
def test_however_long_a_conversation_pauses_the_last_records_tell_where_it_is(
    batches: list[tuple[int, list[str]]], changes_hands_at: int
) -> None:
    """Twenty rows and 200 ms are what a successor reads back here, half of it is a round."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(router_bindings, "ROUND_ROWS", 10)
        patched.setattr(router_bindings, "ROUND_MS", 100)
        bindings, records, now_ms = Bindings(), [], NOW_MS
        for number, (pause_ms, names) in enumerate(batches):
            if number == changes_hands_at:
                bindings = _successor(records)
            now_ms += pause_ms
            rows = []
            for name in names:
                binding = ("gpu", f"gpu-{number}")
                bindings.bind(name, binding, settles=True)
                features = request(conversation=name)
                decision = Decision(Reason.STICKY, 10, *binding, 0)
                rows += _record(number, features, decision).rows
            records.append(
                _record(number, request(), Decision(Reason.EXPIRED, 10))._replace(
                    rows=rows, now_ms=now_ms, bound=bindings.state(len(rows), now_ms)
                )
            )
            assert dict(_successor(records).by_conversation) == dict(bindings.by_conversation)


def _successor(records: list[DecisionsRecord]) -> Bindings:
    """Read back as `read_recent` does, record by record instead of stretch by stretch."""
    read: list[DecisionsRecord] = []
    for record in reversed(records):
        read.insert(0, record)
        rows = sum(len(each.rows) for each in read)
        if rows >= 20 or records[-1].now_ms - record.now_ms > 200:
            break
    bindings = Bindings()
    for record in read:
        remember(record, DuplicateWindow(), bindings, NOW_MS)
    return bindings


def _rebuilt(records: list[DecisionsRecord]) -> dict[str, tuple[str, str]]:
    bindings = Bindings()
    for record in records:
        remember(record, DuplicateWindow(), bindings, NOW_MS)
    return dict(bindings.by_conversation)


def _record(number: int, features: Features, decision: Decision) -> DecisionsRecord:
    row = DecisionRow(
        0, number, f"r{number}", 0, 1, 0, decision.reason.value, decision.pool, decision.express,
        decision.node, decision.partition, features, decision.released,
    )  # fmt: skip
    counts = RouterCounts({})
    return DecisionsRecord(
        "router", number, 0, (number, -1), (number + 1, -1), (counts, None), "overflow", "normal",
        10, NOW_MS, ViewInputs(None, 0.0), [row],
    )  # fmt: skip
