"""`predictive` in a real system: nodes measure, control tells, the router decides by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import OffsetReader
from schemas.message import decode
from schemas.outcomes import Reason
from schemas.pools import ComputeType
from schemas.result import Result
from schemas.service import size_of
from streams.control.record import last_snapshot
from tests.conftest import RunningKafka
from tests.kafka.reading import read_all
from tests.kafka.system import System, ended_afterwards
from tests.waiting import until

pytestmark = pytest.mark.kafka

RUN_MS = {"gpu": 60, "cpu": 240}
"""A request costs 0.06 on the gpu and 0.024 on the cpu."""
GFLOPS = 100.0
KINDS = {
    "patient": ({"priority": "batch"}, "cpu"),
    "roomy": ({"latency_slo_ms": 5_000}, "cpu"),
    "tight": ({"latency_slo_ms": 200}, "gpu"),
    "urgent": ({"priority": "realtime"}, "gpu"),
}
EACH = 3
FIRST = {"first-cpu": "batch", "first-gpu": "realtime"}
"""What somebody waits for goes only where something has run, so these come first."""
KNOWN = {Reason.CHEAPEST, Reason.REALTIME, Reason.EXPLORING}
PARTITIONS = 2


async def test_requests_go_where_nodes_have_measured_that_they_are_cheapest_in_time(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    system = System(kafka.bootstrap_servers, tmp_path)
    await system.create(partitions=PARTITIONS)
    results: dict[str, Result] = {}

    async def all_ended() -> bool:
        places = [TopicPartition(system.names.results, number) for number in range(PARTITIONS)]
        for record in await read_all(system.connection, places):
            result = decode(Result, record.value or b"")
            results[result.id] = result
        return len(results) == system.sent

    async def told() -> bool:
        async with OffsetReader(system.connection) as offsets:
            said = await last_snapshot(system.connection, offsets, system.names)
        measured = {} if said is None else said.service
        kinds = {of: [(one.model, one.size) for one in told] for of, told in measured.items()}
        return kinds == {of: [("m", size_of(GFLOPS))] for of in (ComputeType.GPU, ComputeType.CPU)}

    with ended_afterwards(system):
        nodes = [system.start_node(f"{pool}-0", slots=4, run_ms=ms) for pool, ms in RUN_MS.items()]
        router = system.start("router", "router", "--set=policy.name=predictive")
        await system.until_ready(system.start("control", "control"), router, *nodes)
        for name, priority in FIRST.items():
            await system.send([name], priority=priority, estimated_gflops=GFLOPS)
        await until(told)
        for kind, (said, _) in KINDS.items():
            names = [f"{kind}-{number}" for number in range(EACH)]
            await system.send(names, estimated_gflops=GFLOPS, **said)
            await until(all_ended)
    where = {name: result.served_by.pool for name, result in results.items() if result.served_by}
    # One in 16 of the patient ones tries what is little known, which both are.
    tried = {name for name in where if results[name].decision.reason is Reason.EXPLORING}
    assert all(name.startswith("patient") for name in tried)
    assert {name: pool for name, pool in where.items() if name not in tried} == {
        name: name.removeprefix("first-") if name in FIRST else KINDS[name.partition("-")[0]][1]
        for name in where
        if name not in tried
    }
    reasons = {result.decision.reason for result in results.values()}
    assert {Reason.CHEAPEST, Reason.REALTIME} <= reasons <= KNOWN
    assert {result.decision.policy for result in results.values()} == {"predictive"}
