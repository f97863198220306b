from __future__ import annotations

import pytest

from schemas.control import (
    Freeze,
    LagSample,
    NodeState,
    PartitionLag,
    Snapshot,
)
from schemas.message import decode, encode
from schemas.orders import Order
from schemas.pools import DEFAULT_POOLS
from streams.control.nodes import Heard
from streams.control.orders import OrderBook
from streams.control.rates import LagRow, Pace
from streams.control.snapshot import HOLE_AFTER_MS, fleet_view, holes, make_snapshot, news
from streams.control.term import ThresholdRow, obey, settled, take_over, tick
from streams.policy.controllers import CONTROLLERS

FREEZE = Freeze(who="ana", why="migration", at_ms=1)
HOLD = Order(what="freeze", who="ana", why="migration", at_ms=1)
PAUSE = Order(what="pause", who="ana", why="firmware", at_ms=1)
NO_ORDERS = OrderBook()


def ordered(read: int = 9, **orders: Order) -> OrderBook:
    return OrderBook(read=read, standing={key.replace("_", "/"): o for key, o in orders.items()})


def row(still_ms: int = 0, **unfinished: tuple[int, ...]) -> LagRow:
    counts = {"gpu": (0, 0), "cpu": (0, 0), "npu": (0, 0), **unfinished}
    return LagRow(
        sample=LagSample(
            probed_at_ms=5_000,
            took_ms=3.0,
            pools={
                name: tuple(PartitionLag(routed=n + 100, finished=100, unfinished=n) for n in pool)
                for name, pool in counts.items()
            },
            requests_included=(7, -1),
            retry_included=(-1, -1),
        ),
        paces={name: (Pace(finish_rate=12.5, still_ms=still_ms),) * 2 for name in counts},
    )


def node(name: str = "a", *, live: bool = True, busy: int = 0, latency_ms: float = 50) -> NodeState:
    return NodeState(
        id=name, pool="gpu", live=live, slots=4, busy=busy, partitions=(0,), latency_ms=latency_ms
    )


def snapshot(
    lags: LagRow | None = None,
    nodes: tuple[NodeState, ...] = (),
    threshold: int = 10,
    book: OrderBook = NO_ORDERS,
) -> Snapshot:
    return make_snapshot(
        lags or row(),
        nodes,
        ThresholdRow(generation=3, threshold=threshold),
        book,
        number=8,
        published_at_ms=5_040,
    )


def test_a_snapshot_says_what_the_tables_say() -> None:
    made = snapshot(row(gpu=(6, 1)), (node(),), threshold=7)
    assert (made.generation, made.number, made.threshold) == (3, 8, 7)
    assert (made.probed_at_ms, made.published_at_ms) == (5_000, 5_040)
    assert (made.requests_included, made.retry_included) == ((7, -1), (-1, -1))
    gpu = made.pools["gpu"]
    assert [p.unfinished for p in gpu.partitions] == [6, 1]
    assert [p.finish_rate for p in gpu.partitions] == [12.5, 12.5]
    assert (gpu.routed_total, gpu.finished_total) == (207, 200)


def test_depth_and_free_slots_are_the_policys_at_the_time_of_the_counts() -> None:
    gpu = fleet_view(snapshot(row(gpu=(6, 1)), (node(),)), DEFAULT_POOLS).pool("gpu")
    assert (gpu.queue_depth, gpu.free_slots) == (3, 0)  # 2 beyond its slots, 1 without an owner
    idle = fleet_view(snapshot(row(), (node(),)), DEFAULT_POOLS).pool("gpu")
    assert (idle.queue_depth, idle.free_slots) == (0, 4)


def test_routers_hear_at_once_of_counts_nodes_and_threshold_but_not_of_drift() -> None:
    before = snapshot(nodes=(node(),))
    assert news(None, before)
    assert not news(before, snapshot(nodes=(node(busy=2, latency_ms=61),)))
    assert news(before, snapshot(row(gpu=(1, 0)), (node(),)))
    assert news(before, snapshot(nodes=(node(live=False),)))
    assert news(before, snapshot(nodes=(node(),), threshold=9))
    assert news(before, snapshot(nodes=(node(),), book=ordered()))


def test_a_paused_pool_is_down_for_the_policy_and_says_who_and_why() -> None:
    made = snapshot(row(), (node(),), book=ordered(pool_gpu=PAUSE, pool_unknown=PAUSE))
    assert made.orders_included == 9
    assert made.pools.keys() == {"gpu", "cpu", "npu"}
    assert (made.pools["gpu"].paused, made.pools["gpu"].reason) == (True, "paused by ana: firmware")
    assert (made.pools["cpu"].paused, made.pools["cpu"].reason) == (False, "")
    assert fleet_view(made, DEFAULT_POOLS).pool("gpu").down


@pytest.mark.parametrize(
    ("still_ms", "busy", "live", "expected"),
    [
        (HOLE_AFTER_MS, 0, True, 1),
        (HOLE_AFTER_MS - 1, 0, True, 0),
        (HOLE_AFTER_MS, 1, True, 0),
        (HOLE_AFTER_MS, 0, False, 0),
    ],
)
def test_a_hole_is_lag_that_stands_while_its_owner_idles(
    still_ms: int, busy: int, live: bool, expected: int
) -> None:
    assert holes(row(still_ms, gpu=(3, 0)), (node(busy=busy, live=live),)) == expected


def test_a_successor_goes_on_with_the_threshold_one_generation_up() -> None:
    last = snapshot(nodes=(node("a"), node("b", live=False)), threshold=17)
    term = take_over(last, NO_ORDERS, now_s=50.0)
    assert term.row == ThresholdRow(generation=4, threshold=17)
    assert term.known == {"a"}


def test_orders_decide_what_a_term_begins_with_then_the_last_snapshot_then_the_start() -> None:
    last = snapshot(threshold=17).model_copy(update={"freeze": FREEZE})
    at_25 = HOLD.model_copy(update={"threshold": 25})
    for before, book, begins in (
        (last, ordered(threshold=at_25), (25, FREEZE)),
        (last, ordered(threshold=HOLD), (17, FREEZE)),
        (last, NO_ORDERS, (17, None)),  # it was released while nobody spoke
        (None, ordered(threshold=at_25), (25, FREEZE)),
        (None, ordered(threshold=HOLD), (10, FREEZE)),
    ):
        row = take_over(before, book, 0.0).row
        assert (row.threshold, row.freeze) == begins


def test_the_first_worker_ever_begins_at_the_start() -> None:
    term = take_over(None, NO_ORDERS, now_s=0.0)
    assert (term.row.generation, term.row.threshold) == (1, 10)
    assert settled(term, frozenset(), {}, 0.0)


def test_a_successor_waits_for_every_known_node_but_no_longer_than_three_seconds() -> None:
    term = take_over(snapshot(nodes=(node("a"),)), NO_ORDERS, now_s=50.0)
    table = frozenset({"b"})
    assert not settled(term, table, {"a": Heard(50.2)}, 50.5)
    assert not settled(term, table, {"a": Heard(50.2), "b": Heard(49.9)}, 50.5)
    assert settled(term, table, {"a": Heard(50.2), "b": Heard(50.4)}, 50.5)
    assert settled(term, table, {}, 53.1)


@pytest.mark.parametrize("name", CONTROLLERS)
def test_the_threshold_steps_and_a_freeze_holds_it(name: str) -> None:
    def after(row: ThresholdRow, gpu_depth: float, cpu_depth: float) -> ThresholdRow:
        return tick(row, CONTROLLERS[name], elapsed_s=1.0, gpu_depth=gpu_depth, cpu_depth=cpu_depth)

    at = ThresholdRow(generation=1, threshold=10)
    assert after(at, 6, 0).threshold == 9
    assert after(at, 2, 1).threshold == 10
    frozen = obey(at, HOLD)
    assert frozen == ThresholdRow(generation=1, threshold=10, freeze=FREEZE)
    assert after(frozen, 6, 0) == frozen
    assert after(obey(frozen, None), 6, 0).threshold == 9


def test_a_successor_steps_on_with_what_the_controller_remembers() -> None:
    def after(row: ThresholdRow) -> ThresholdRow:
        return tick(row, CONTROLLERS["stable"], elapsed_s=1.0, gpu_depth=9, cpu_depth=0)

    before = after(ThresholdRow(generation=3, threshold=20))
    made = make_snapshot(row(), (), before, NO_ORDERS, number=8, published_at_ms=0)
    heard = decode(Snapshot, encode(made))
    term = take_over(heard, NO_ORDERS, now_s=0.0)
    assert term.row == before.model_copy(update={"generation": 4})
    assert after(term.row).steering == after(before).steering
