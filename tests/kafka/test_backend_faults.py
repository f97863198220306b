"""A server that fails in every way: one terminal record a request, no slot is lost; nor a node."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import orjson
import pytest
from aiokafka.structs import TopicPartition

from executors import retry
from executors.backends.registry import make_backend
from executors.settings import NodeOptions
from schemas.control import NodeState
from schemas.message import decode
from schemas.outcomes import Disposition, ErrorCategory, Status
from schemas.result import Result
from tests.conftest import RunningKafka
from tests.kafka.pool_place import PoolPlace, running
from tests.kafka.reading import read_all
from tests.kafka.system import System, ended_afterwards, get
from tests.unit.fault_server import FAULTS, GOOD, SELF_TEST, FaultServer, fault_server
from tests.waiting import in_time, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

SLOTS = 4
AFTER = 3 * SLOTS
PARTITIONS = 2
BURST = 6
RUN_HERE = ("gpu-0", "cpu-0")


async def test_each_fault_of_a_server_ends_in_one_terminal_record_and_frees_its_slot(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_WITHIN_MS", 0.0)  # else it tries for 10 s
    place = PoolPlace(kafka.bootstrap_servers)
    await place.create()
    gone = len(FAULTS) + AFTER
    async with fault_server() as server:
        options = {"url": server.url, "run_within_s": in_time(3)}
        node = place.node(
            make_backend(NodeOptions(pool="gpu", backend="openai", slots=SLOTS, options=options)),
            slots=SLOTS,
        )
        async with running(node):
            for number, fault in enumerate(FAULTS):
                # The last attempt: what would be handed to another node ends here.
                await place.route(
                    range(number, number + 1), model=fault, attempt=retry.ATTEMPTS_MAX
                )
            await place.route(range(len(FAULTS), gone), model=GOOD)
            await until(lambda: place.all_ended(gone), within_s=in_time(40))
            await until(lambda: node.report().busy == 0)
            await until(lambda: server.open == 0)
            await server.stop()
            await place.route(range(gone, gone + 1), model=GOOD, attempt=retry.ATTEMPTS_MAX)
            await until(lambda: place.all_ended(gone + 1), within_s=in_time(20))
            await until(lambda: node.report().busy == 0)
    ended = [orjson.loads(one.value or b"") for one in await place.read(place.names.results)]
    assert set(Counter(one["id"] for one in ended).values()) == {1}
    errors = {one["model_name"]: one["error"] for one in ended if one["status"] == "error"}
    faults = {**FAULTS, GOOD: ErrorCategory.UNAVAILABLE}  # its server refused the connection
    assert errors.keys() == faults.keys()
    for fault, category in faults.items():
        if category.disposition is Disposition.FINAL:
            assert errors[fault]["category"] == category.value
        else:
            assert errors[fault]["category"] == ErrorCategory.ATTEMPTS_EXHAUSTED.value
            assert category.value in errors[fault]["message"]
    assert sum(one["status"] == "ok" for one in ended) == AFTER


async def test_a_node_whose_server_fails_gets_no_work_until_it_is_well_again(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    system = System(kafka.bootstrap_servers, tmp_path)
    await system.create(partitions=PARTITIONS)
    names = iter(f"r{number}" for number in range(10_000))
    results: list[Result] = []

    async def all_ended() -> bool:
        places = [TopicPartition(system.names.results, number) for number in range(PARTITIONS)]
        written = await read_all(system.connection, places)
        results[:] = [decode(Result, record.value or b"") for record in written]
        return len(results) >= system.sent

    async def pools_of_a_burst() -> set[str]:
        asked = [next(names) for _ in range(BURST)]
        await system.send(asked, model_name=GOOD)
        await until(all_ended, within_s=in_time(30))
        assert {one.status for one in results} == {Status.OK}
        return {one.served_by.pool for one in results if one.served_by and one.id in asked}

    async def said() -> NodeState:
        status = await system.until_status(lambda status: len(status.nodes) == len(RUN_HERE))
        return next(node for node in status.nodes if node.id == RUN_HERE[0])

    async with fault_server() as server:
        with ended_afterwards(system):
            gpu = system.start(
                "gpu-0", "executor", "--pool=gpu", "--backend=openai", "--node-id=gpu-0",
                f"--slots={SLOTS}", f"--url={server.url}",
                f'--set=backends.openai.models=["{GOOD}"]',
            )  # fmt: skip
            cpu = system.start_node("cpu-0", slots=SLOTS, run_ms=20)
            router = system.start("router", "router")
            await system.until_ready(system.start("control", "control"), router, gpu, cpu)
            while await pools_of_a_burst() != {"gpu"}:
                pass  # the router does not know all nodes at once
            server.ill = True
            while (await said()).live:
                assert await pools_of_a_burst() == {"cpu"}
            assert "unhealthy: the probe of good" in (await said()).reason
            assert await get(f"{gpu.url}/readyz") == ""
            before = requests_to(server)
            assert await pools_of_a_burst() == {"cpu"}
            assert requests_to(server) == before
            server.ill = False
            while await pools_of_a_burst() != {"gpu"}:
                pass  # it is probed at growing pauses
            assert (await said()).reason == ""
    assert set(Counter(one.id for one in results).values()) == {1}


def requests_to(server: FaultServer) -> int:
    """Return how many requests a server was asked, self-tests left out."""
    return sum(one.get("prompt") != SELF_TEST for one in server.asked)
