"""Operators' orders on a running system: drained, paused and frozen means just that."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from deploy.cli import main
from deploy.client.judge import judge
from deploy.client.reader import Reader
from runtime.kafka.offsets import OffsetReader
from schemas.control import Snapshot
from schemas.decisions import DecisionsRecord, decode_decisions
from schemas.message import decode
from streams.control.record import last_snapshot
from tests.conftest import RunningKafka
from tests.kafka.reading import read_all
from tests.kafka.system import System, ended_afterwards
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PARTITIONS = 2
EVERY_S = 0.02
"""From request to request: a fifth of what the two gpu nodes can do."""
SOON_S = 60
"""For what takes a second on a machine that has nothing else to do."""
BEGUN = {"snapshot": [0, 0]}
"""In the place of an order: all that was decided."""
OBEYED_WITHIN_MS = 5_000
"""From the snapshot that obeys to the last decision without it. Measured: 102 ms at most in 15."""


@pytest.fixture(scope="module")
def system(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Start a system of two gpu nodes and a cpu node; every test leaves it without orders."""
    system = System(kafka.bootstrap_servers, tmp_path_factory.mktemp("orders"))
    asyncio.run(system.create(PARTITIONS))
    with ended_afterwards(system):
        roles = [
            system.start("control", "control"),
            system.start("router", "router"),
            system.start_node("gpu-1", slots=8, run_ms=60),
            system.start_node("gpu-2", slots=8, run_ms=60),
            system.start_node("cpu-1", slots=8, run_ms=60),
        ]
        asyncio.run(system.until_ready(*roles))
        yield system


class Operator:
    """Gives commands as an operator does, and reads their JSON."""

    def __init__(self, system: System, capsys: pytest.CaptureFixture[str]) -> None:
        self._system = system
        self._capsys = capsys

    async def __call__(self, *command: str) -> Any:
        """Run `overspill COMMAND --json`, which has to end well."""
        settings = self._system.settings
        flags = (
            "--json",
            f"--bootstrap-servers={settings.kafka.bootstrap_servers}",
            f"--set=prefix={settings.prefix}",
        )
        self._capsys.readouterr()
        assert await asyncio.to_thread(main, [*command, *flags]) == 0
        return json.loads(self._capsys.readouterr().out)

    async def order(self, *command: str) -> dict[str, Any]:
        """Give an order and return it; a snapshot obeys it."""
        why = () if {"resume", "release"} & set(command) else ("--why=test",)
        said: dict[str, Any] = await self(*command, *why, "--who=ana")
        assert said["in_force"]
        return said


@pytest.fixture
def operator(
    system: System, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Operator:
    monkeypatch.setattr("deploy.orders.IN_FORCE_WITHIN_S", SOON_S)
    return Operator(system, capsys)


_runs = itertools.count()


@asynccontextmanager
async def traffic(system: System, **fields: object) -> AsyncIterator[None]:
    """Send a request every 20 ms as long as this lasts, then wait for the end of all."""
    stopped = False
    run = next(_runs)

    def names() -> Iterator[str]:
        for number in itertools.count():
            if stopped:
                return
            yield f"t{run}-{number}"

    sending = asyncio.ensure_future(system.send(names(), every_s=EVERY_S, **fields))
    try:
        yield
    finally:
        stopped = True
        await sending
    await system.until_status(
        lambda s: not s.undecided and not any(pool.unfinished for pool in s.pools.values()), SOON_S
    )


class Decisions:
    """All that the router has decided, followed as it comes."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._read: list[DecisionsRecord] = []

    async def until_routed(
        self, order: dict[str, Any], holds: Callable[[Counter[str | None]], bool]
    ) -> Counter[str | None]:
        """Return what went to each node by decisions that knew of the order, once that holds."""
        give_up_s = time.monotonic() + SOON_S
        while not holds(self.routed_since(order)):
            assert time.monotonic() < give_up_s, self.routed_since(order)
            self._read += [
                decode_decisions(record.value or b"") for record in await self._reader.some()
            ]
        return self.routed_since(order)

    def routed_since(self, order: dict[str, Any]) -> Counter[str | None]:
        return Counter(
            row.node
            for record in self._read
            if list(record.view.snapshot or ()) >= order["snapshot"]
            for row in record.rows
        )

    def last_against_ms(self, order: dict[str, Any], obeyed: Snapshot, *nodes: str) -> int:
        """Return how long after that snapshot a request was last routed to one of the nodes."""
        return max(
            record.now_ms - obeyed.published_at_ms
            for record in self._read
            if list(record.view.snapshot or ()) < order["snapshot"]
            if any(row.node in nodes for row in record.rows)
        )


@pytest.fixture
async def decisions(system: System) -> AsyncIterator[Decisions]:
    async with Reader(system.connection, (system.names.decisions,), from_end=False) as reader:
        yield Decisions(reader)


async def snapshot(system: System) -> Snapshot:
    """Return the last one."""
    async with OffsetReader(system.connection) as offsets:
        found = await last_snapshot(system.connection, offsets, system.names)
    assert found is not None
    return found


async def obeying(system: System, order: dict[str, Any]) -> Snapshot:
    """Return the snapshot that the command named."""
    for record in await read_all(system.connection, [TopicPartition(system.names.control, 0)]):
        found = decode(Snapshot, record.value or b"")
        if [found.generation, found.number] == order["snapshot"]:
            return found
    pytest.fail("the snapshot it names was never published")


async def test_a_drained_node_gets_nothing_new_and_finishes_what_it_has(
    system: System, operator: Operator, decisions: Decisions
) -> None:
    async with traffic(system):
        await decisions.until_routed(BEGUN, lambda to: to["gpu-1"] > 5 and to["gpu-2"] > 5)
        drained = await operator.order("nodes", "drain", "gpu-1")
        to = await decisions.until_routed(drained, lambda to: to["gpu-2"] > 10)
        assert to["gpu-1"] == 0
        obeyed = await obeying(system, drained)
        assert decisions.last_against_ms(drained, obeyed, "gpu-1") < OBEYED_WITHIN_MS

        async def is_done() -> bool:
            (node,) = [n for n in (await operator("nodes", "list"))["nodes"] if n["id"] == "gpu-1"]
            assert (node["state"], node["reason"]) == ("draining", "drained by ana: test")
            return bool(node["unfinished"] == node["busy"] == 0)

        await until(is_done, SOON_S, poll_s=0.1)
        status = await operator("status")
        (order,) = status["orders"]
        assert (order["about"], order["who"], order["in_force"]) == ("node/gpu-1", "ana", True)

        # With the other one drained too the pool is down, and other work overflows.
        both = await operator.order("nodes", "drain", "gpu-2")
        assert (await operator("pools", "list"))["pools"][0]["state"] == "down"
        to = await decisions.until_routed(both, lambda to: to["cpu-1"] > 10)
        assert to["gpu-1"] == to["gpu-2"] == 0

        await operator.order("nodes", "resume", "gpu-2")
        resumed = await operator.order("nodes", "resume", "gpu-1")
        await decisions.until_routed(resumed, lambda to: to["gpu-1"] > 5)
    assert (await operator("status"))["orders"] == []


async def test_a_paused_pool_is_down_and_its_nodes_finish_what_they_have(
    system: System, operator: Operator, decisions: Decisions
) -> None:
    async with traffic(system):
        await decisions.until_routed(BEGUN, lambda to: to["gpu-1"] + to["gpu-2"] > 5)
        paused = await operator.order("pools", "pause", "gpu")
        to = await decisions.until_routed(paused, lambda to: to["cpu-1"] > 10)
        assert to["gpu-1"] == to["gpu-2"] == 0
        obeyed = await obeying(system, paused)
        assert decisions.last_against_ms(paused, obeyed, "gpu-1", "gpu-2") < OBEYED_WITHIN_MS
        await system.until_status(lambda s: s.pools["gpu"].unfinished == 0, SOON_S)
        status = await operator("status")
        assert (status["pools"]["gpu"]["paused"], status["pools"]["gpu"]["nodes"]) == (True, 2)
        # Realtime work is worth nothing elsewhere: it waits on the gpu, whose nodes still work.
        await system.send(["urgent"], priority="realtime")
        to = await decisions.until_routed(paused, lambda to: to["gpu-1"] + to["gpu-2"] == 1)
        assert to["cpu-1"] > 10
        resumed = await operator.order("pools", "resume", "gpu")
        await decisions.until_routed(resumed, lambda to: to["gpu-1"] + to["gpu-2"] > 5)


async def test_the_threshold_is_held_and_all_orders_outlive_the_control_worker(
    system: System, operator: Operator
) -> None:
    before = (await operator("threshold", "show"))["threshold"]
    frozen = await operator.order("threshold", "freeze")
    assert frozen["threshold"] is None
    shown = await operator("threshold", "show")
    assert (shown["threshold"], shown["freeze"]["why"]) == (before, "test")
    await operator.order("threshold", "set", "25")
    await operator.order("nodes", "drain", "gpu-1")
    await operator.order("pools", "pause", "cpu")
    spoke = await snapshot(system)

    control = system.roles["control"]
    control.kill()
    # Given while nobody listens, it stands, and is obeyed by the worker that comes.
    ended = asyncio.ensure_future(operator("nodes", "resume", "gpu-1"))
    await until(lambda: _is_written(system, spoke.orders_included), SOON_S)
    control.start()
    assert (await ended)["in_force"]
    after = await snapshot(system)
    assert after.generation == spoke.generation + 1
    assert (after.threshold, after.freeze) == (25, spoke.freeze)
    assert [name for name, pool in after.pools.items() if pool.paused] == ["cpu"]
    assert not any(node.draining for node in after.nodes)

    await operator.order("pools", "resume", "cpu")
    await operator.order("threshold", "release")
    shown = await operator("threshold", "show")
    assert (shown["threshold"], shown["freeze"], shown["order"]) == (25, None, None)


async def _is_written(system: System, end: int) -> bool:
    async with OffsetReader(system.connection) as offsets:
        place = TopicPartition(system.names.orders, 0)
        return (await offsets.end([place]))[place] > end


async def test_without_a_control_worker_the_order_stands_and_says_so(
    system: System, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.orders.IN_FORCE_WITHIN_S", 0.5)
    system.roles["control"].kill()
    said = await operator("pools", "pause", "npu", "--why=test")
    assert (said["in_force"], said["snapshot"]) == (False, None)
    (pool,) = [p for p in (await operator("pools", "list"))["pools"] if p["name"] == "npu"]
    assert (pool["state"], pool["order"]["in_force"]) == ("down", False)
    await operator("pools", "resume", "npu")


async def test_every_request_ended_exactly_once_whatever_was_ordered(system: System) -> None:
    verdict = await judge(system.connection, system.names)
    assert verdict.exactly_once
    assert verdict.asked > 50
