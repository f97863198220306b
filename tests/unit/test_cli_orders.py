"""The commands of operators: what they show and say, without a broker."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from deploy.cli import main
from deploy.cli.status_table import status_view
from deploy.orders import Known
from schemas.control import Freeze, NodeState, PartitionState, PoolState, Snapshot
from schemas.orders import Order, Verb
from streams.control.orders import OrderBook
from tests.unit.test_status import status

NOW_MS = 1_000_000
DRAIN = Order(what="drain", who="ana", why="new disk", at_ms=7)
PAUSE = Order(what="pause", who="bo", why="too dear", at_ms=8)
HOLD = Order(what="freeze", who="cy", why="test", at_ms=9, threshold=25)


def node(name: str, **state: Any) -> NodeState:
    pool = name.rpartition("-")[0]
    known = {"live": True, "slots": 4, "busy": 1, "partitions": (0,), "latency_ms": 50.4}
    return NodeState(id=name, pool=pool, **{**known, **state})


def pool(*unfinished: int, **state: Any) -> PoolState:
    partitions = tuple(PartitionState(unfinished=n, finish_rate=0.0) for n in unfinished)
    return PoolState(routed_total=0, finished_total=0, partitions=partitions, **state)


FLEET = Snapshot(
    number=17,
    generation=3,
    probed_at_ms=0,
    published_at_ms=NOW_MS - 300,
    threshold=25,
    freeze=Freeze(who="cy", why="test", at_ms=9),
    pools={
        "gpu": pool(5, 2),
        "cpu": pool(0, paused=True, reason=PAUSE.in_words),
        "npu": pool(0),
    },
    nodes=(
        node("gpu-2", partitions=(1,), busy=4),
        node("cpu-1"),
        node("gpu-1", draining=True, reason=DRAIN.in_words),
        node("npu-1", live=False, partitions=(), reason="no report for 3 s"),
    ),
    requests_included=(),
    retry_included=(),
    orders_included=4,
)
BOOK = OrderBook(
    read=4,
    standing={"node/gpu-1": DRAIN, "node/gone": DRAIN, "pool/cpu": PAUSE, "threshold": HOLD},
)

Show = Callable[..., str]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Return what a command prints, given what is known."""

    def shown(*command: str, snapshot: Snapshot | None = FLEET, book: OrderBook = BOOK) -> str:
        async def read_known(*_: object) -> Known:
            return Known(snapshot, book, NOW_MS)

        monkeypatch.setattr("deploy.cli.fleet_lists.read_known", read_known)
        monkeypatch.setattr("deploy.cli.ordering.read_known", read_known)
        assert main(list(command)) == 0
        return capsys.readouterr().out

    return shown


def rows(text: str) -> list[list[str]]:
    """Return the cells of each line; columns stand two blanks or more apart."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def test_nodes_are_listed_by_pool_with_state_load_and_reason(show: Show) -> None:
    assert rows(show("nodes", "list")) == [
        ["node", "pool", "state", "slots", "busy", "unfinished", "avg ms", "why"],
        ["cpu-1", "cpu", "live", "4", "1", "0", "50"],
        ["gpu-1", "gpu", "draining", "4", "1", "5", "50", "drained by ana: new disk"],
        ["gpu-2", "gpu", "live", "4", "4", "2", "50"],
        ["npu-1", "npu", "down", "4", "1", "0", "50", "no report for 3 s"],
        ["not there: node gone, drained by ana: new disk"],
        ["As published 0.3 s ago."],
    ]
    document = json.loads(show("nodes", "list", "--json"))
    drained = document["nodes"][1]
    assert (drained["id"], drained["state"], drained["unfinished"]) == ("gpu-1", "draining", 5)
    assert drained["order"] == {
        "about": "node/gpu-1", "version": 1, "what": "drain", "who": "ana", "why": "new disk",
        "at_ms": 7, "threshold": None, "in_force": True,
    }  # fmt: skip
    assert [order["about"] for order in document["absent"]] == ["node/gone"]


def test_pools_are_open_paused_or_down_and_say_why(show: Show) -> None:
    assert rows(show("pools", "list"))[1:-1] == [
        ["gpu", "open", "2", "1", "8", "7"],
        ["cpu", "paused", "1", "0", "4", "0", "paused by bo: too dear"],
        ["npu", "down", "0", "0", "0", "0", "no live node"],
    ]
    drained = FLEET.model_copy(update={"nodes": (node("gpu-1", draining=True),)})
    (gpu, *_) = json.loads(show("pools", "list", "--json", snapshot=drained))["pools"]
    assert (gpu["state"], gpu["reason"]) == ("down", "every live node is draining")


def test_the_threshold_is_shown_with_who_holds_it(show: Show) -> None:
    assert show("threshold", "show").startswith("threshold 25, frozen by cy: test\n")
    free = FLEET.model_copy(update={"freeze": None, "threshold": 12})
    said = show("threshold", "show", snapshot=free, book=OrderBook())
    assert said.startswith("threshold 12, moving\n")


def test_an_order_that_no_snapshot_obeys_is_shown_as_not_in_force(show: Show) -> None:
    before = FLEET.model_copy(update={"freeze": None, "pools": {}, "nodes": (node("gpu-1"),)})
    unheard = "(not in force: no control worker has read it)"
    assert f"drained by ana: new disk {unheard}" in show("nodes", "list", snapshot=before)
    assert f"frozen at 25 by cy: test {unheard}" in show("threshold", "show", snapshot=before)
    (_, cpu, _) = json.loads(show("pools", "list", "--json", snapshot=before))["pools"]
    assert cpu["order"]["in_force"] is False


def test_before_any_control_worker_there_is_nothing_to_show_and_that_is_said(show: Show) -> None:
    for command in (("nodes", "list"), ("pools", "list"), ("threshold", "show")):
        said = show(*command, snapshot=None, book=OrderBook())
        assert said.endswith(
            "No control worker has ever published: `overspill control` runs one.\n"
        )


def test_status_says_each_order_once_and_which_are_not_in_force() -> None:
    def lines(**said: Any) -> list[str]:
        screen = Console(width=200, file=io.StringIO())
        screen.print(status_view(status(book=BOOK, **said)))
        assert isinstance(screen.file, io.StringIO)
        return screen.file.getvalue().splitlines()

    obeyed = {"nodes": FLEET.nodes, "pools": FLEET.pools, "freeze": FLEET.freeze, "threshold": 25}
    told = [line for line in lines(**obeyed) if " by " in line]
    assert [line.partition(";")[0] for line in told] == [
        "threshold 25, frozen by cy (test)",
        "node gone drained by ana: new disk (not in force)",
        "pool cpu paused by bo: too dear",
        "node gpu-1 (gpu): drained by ana: new disk",
    ]
    unheard = [line for line in lines() if line.endswith("(not in force)")]
    assert len(unheard) == len(BOOK.standing)


Given = list[tuple[str, Order]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """Return what was ordered; a snapshot obeys unless the order is given by nobody."""
    orders: Given = []

    async def give(_: object, __: object, about: str, order: Order, ___: object) -> object:
        orders.append((about, order))
        return None if order.who == "nobody" else FLEET

    monkeypatch.setattr("deploy.cli.ordering.give", give)
    return orders


@pytest.mark.parametrize(
    ("command", "about", "what", "threshold"),
    [
        ("nodes drain gpu-1", "node/gpu-1", Verb.DRAIN, None),
        ("nodes resume gpu-1", "node/gpu-1", Verb.RESUME, None),
        ("nodes resume gone", "node/gone", Verb.RESUME, None),
        ("pools pause npu", "pool/npu", Verb.PAUSE, None),
        ("pools resume npu", "pool/npu", Verb.RESUME, None),
        ("threshold freeze", "threshold", Verb.FREEZE, None),
        ("threshold set 40", "threshold", Verb.FREEZE, 40),
        ("threshold release", "threshold", Verb.RELEASE, None),
    ],
)
def test_a_command_gives_this_order(
    show: Show, given: Given, command: str, about: str, what: Verb, threshold: int | None
) -> None:
    show(*command.split(), "--why=because", "--who=ana")
    ((told, order),) = given
    assert (told, order.what, order.threshold) == (about, what, threshold)
    assert (order.who, order.why) == ("ana", "because")


def test_it_says_whether_a_snapshot_obeys(show: Show, given: Given) -> None:
    said = show("threshold", "set", "40", "--why=test", "--who=ana")
    assert said == "threshold frozen at 40 by ana: test; in force (snapshot 3/17)\n"
    said = show("nodes", "drain", "gpu-1", "--why=test", "--who=nobody")
    assert said.startswith("node gpu-1 drained by nobody: test; written, but no control worker")
    document = json.loads(show("pools", "resume", "cpu", "--json"))
    assert (document["about"], document["in_force"], document["snapshot"]) == (
        "pool/cpu", True, [3, 17],
    )  # fmt: skip
    assert re.fullmatch(r".+@.+", given[-1][1].who)


def test_a_node_that_never_joined_cannot_be_ordered_anything(
    show: Show, given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    show("nodes", "list")
    for snapshot, says in ((FLEET, "no node 'gpu-9' has joined;"), (None, "has ever published")):
        show("nodes", "list", snapshot=snapshot)
        assert main(["nodes", "drain", "gpu-9", "--why=test"]) == 2
        told = capsys.readouterr().err
        assert says in told
        assert "overspill nodes list" in told
        assert told.count("\n") == 1
    assert given == []


def test_a_pool_that_control_does_not_have_cannot_be_ordered_anything(
    show: Show, given: Given, capsys: pytest.CaptureFixture[str]
) -> None:
    pools = {name: state for name, state in FLEET.pools.items() if name != "npu"}
    show("pools", "list", snapshot=FLEET.model_copy(update={"pools": pools}))
    assert main(["pools", "pause", "npu", "--why=test"]) == 2
    assert "control has no pool 'npu', only gpu, cpu" in capsys.readouterr().err
    assert given == []
