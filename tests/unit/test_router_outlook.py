"""What a router believes between two snapshots: its own routing, their age, how much it knows."""

from __future__ import annotations

import random

from schemas.control import ModelRecord, Snapshot
from schemas.decisions import ViewInputs
from schemas.message import encode
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS
from schemas.registry import pack, unpack
from streams.policy import View
from streams.registry import Registry
from streams.router.deltas import KEEP_S, Delta, Deltas
from streams.router.outlook import Outlook
from tests.fleet import node, snapshot

GPU_0 = ("gpu", 0)


def heard(*, number: int = 1, generation: int = 1, included: tuple[int, ...] = (0,)) -> Snapshot:
    """Return a snapshot of one gpu node that includes these offsets of `requests`."""
    return snapshot([node("gpu-1")]).model_copy(
        update={
            "number": number,
            "generation": generation,
            "requests_included": included,
            "retry_included": (-1,),
        }
    )


def routed(records: int, *, following: int, retry: int = -1, at_s: float = 0.0) -> Delta:
    return Delta(0, (following, retry), {GPU_0: records}, at_s)


def outlook() -> Outlook:
    return Outlook(View(DEFAULT_POOLS, "router", {"gpu": 1, "cpu": 1, "npu": 1}))


def hear(made: Outlook, told: Snapshot, now_s: float) -> None:
    made.hear(told, encode(told), now_s)


def test_what_the_snapshot_does_not_include_is_added() -> None:
    deltas = Deltas()
    deltas.add(routed(3, following=5))
    deltas.add(routed(4, following=9))
    assert deltas.beyond(heard(included=(4,)), 0.0) == {GPU_0: 7}
    assert deltas.beyond(heard(number=2, included=(5,)), 0.0) == {GPU_0: 4}
    assert deltas.beyond(heard(number=3, included=(9,)), 0.0) == {}


def test_a_batch_of_retries_is_included_by_the_offset_of_retry() -> None:
    deltas = Deltas()
    deltas.add(routed(2, following=-1, retry=3))
    told = heard(included=(100,))
    assert deltas.beyond(told, 0.0) == {GPU_0: 2}
    included = told.model_copy(update={"number": 2, "retry_included": (3,)})
    assert deltas.beyond(included, 0.0) == {}


def test_a_partition_that_control_does_not_know_yet_is_not_included() -> None:
    deltas = Deltas()
    deltas.add(Delta(7, (1, -1), {GPU_0: 1}, 0.0))
    assert deltas.beyond(heard(included=(50,)), 0.0) == {GPU_0: 1}


def test_what_was_not_committed_is_taken_back() -> None:
    deltas = Deltas()
    kept, undone = routed(1, following=5), routed(2, following=9)
    deltas.add(kept)
    deltas.add(undone)
    deltas.take_back(undone)
    assert deltas.beyond(heard(), 0.0) == {GPU_0: 1}


def test_own_routing_is_kept_for_thirty_seconds() -> None:
    deltas = Deltas()
    deltas.add(routed(1, following=5))
    assert deltas.beyond(heard(), KEEP_S) == {GPU_0: 1}
    assert deltas.beyond(heard(), KEEP_S + 0.1) == {}


def test_a_router_is_stale_after_two_seconds_and_blind_after_thirty() -> None:
    made = outlook()
    assert made.mode(0.0) is Mode.BLIND
    hear(made, heard(), 10.0)
    modes = [made.mode(at_s) for at_s in (11.9, 12.0, 39.9, 40.0)]
    assert modes == [Mode.NORMAL, Mode.STALE, Mode.STALE, Mode.BLIND]


def test_an_older_snapshot_changes_nothing_and_makes_nothing_fresh() -> None:
    made = outlook()
    hear(made, heard(number=5, generation=2), 10.0)
    hear(made, heard(number=9, generation=1), 20.0)
    hear(made, heard(number=5, generation=2), 20.0)
    assert made.age_s(20.0) == 10.0
    assert made.look(10.0).snapshot == (2, 5)


def test_what_is_not_fresh_is_said_with_its_age() -> None:
    made = outlook()
    assert made.unready(0.0) == "blind: no snapshot from the control plane"
    hear(made, heard(), 10.0)
    assert made.unready(11.0) is None
    assert made.unready(13.0) == "stale: the last snapshot came 3 s ago"
    assert made.unready(50.0) == "blind: the last snapshot came 40 s ago"


def test_a_view_has_the_snapshot_and_what_was_routed_since() -> None:
    made = outlook()
    hear(made, heard(), 0.0)
    made.deltas.add(routed(12, following=12))
    inputs = made.look(0.0)
    assert made.view.mode is Mode.NORMAL
    assert inputs.own == (("gpu", 0, 12),)
    assert made.view.pool("gpu").queue_depth == 4  # 12 on the 8 slots


def test_a_blind_look_says_that_it_had_no_snapshot() -> None:
    made = outlook()
    hear(made, heard(), 0.0)
    made.recorded(made.look(30.5), 30.5)
    assert made.look(31.0) == ViewInputs(
        None,
        0.0,
        widths=made.view.widths(),
        pools=made.view.configured,
        registry=pack({})[0],
    )
    assert made.view.mode is Mode.BLIND


def test_a_snapshot_is_recorded_until_a_batch_with_it_is_committed() -> None:
    made = outlook()
    told = heard()
    hear(made, told, 0.0)
    first = made.look(0.0)
    assert made.look(0.1).body == first.body == encode(told)
    made.recorded(first, 0.1)
    assert made.look(0.2).body is None
    hear(made, heard(number=2), 0.3)
    assert made.look(0.3).body is not None


def test_added_partitions_change_nothing_of_what_is_known_of_the_others() -> None:
    made = outlook()
    hear(made, heard(), 0.0)
    made.deltas.add(routed(12, following=12))
    made.look(0.0)
    made.widen({"gpu": 3, "cpu": 1, "npu": 1})
    inputs = made.look(0.0)
    assert inputs.own == (("gpu", 0, 12),)
    assert dict(inputs.widths) == {"gpu": 3, "cpu": 1, "npu": 1}
    assert made.view.pool("gpu").unfinished == [12, 0, 0]
    assert made.view.pool("gpu").queue_depth == 4


def test_the_registry_is_stated_once_and_anew_when_it_changes_or_a_minute_has_passed() -> None:
    made = outlook()
    first = made.look(0.0)
    assert unpack(first.registered or b"") == (first.registry, {})
    made.recorded(first, 0.0)
    assert made.look(59.0).registered is None
    made.learn(Registry({"m": ModelRecord(name="m")}))
    changed = made.look(59.0)
    assert unpack(changed.registered or b"")[1] == {"m": ModelRecord(name="m")}
    made.recorded(first, 59.0)  # of before the change: it tells nothing of what is now
    assert made.look(59.0).registered is not None
    made.recorded(changed, 59.0)
    assert (made.look(118.9).registered, made.look(119.0).registered) == (None, changed.registered)


def test_a_registry_that_would_burst_the_record_is_not_stated() -> None:
    made = outlook()
    draw = random.Random(1)
    names = [f"m{draw.getrandbits(512)}" for _ in range(1000)]
    made.learn(Registry({name: ModelRecord(name=name) for name in names}))
    assert made.look(0.0).registered is None
