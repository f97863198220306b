"""The doctor on a real broker: topics, rights, the fleet and clocks as they are."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer

from deploy.cli import main
from schemas.control import SNAPSHOT_KEY, NodeCondition, NodeReport, Snapshot
from schemas.message import encode
from schemas.pools import ComputeType
from tests.kafka.system import System

if TYPE_CHECKING:
    from conftest import RunningKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
def system(kafka: RunningKafka, tmp_path: Path) -> System:
    return System(kafka.bootstrap_servers, tmp_path)


def examined(system: System, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return how the command ends, and the last finding about each thing."""
    capsys.readouterr()
    flags = (
        f"--bootstrap-servers={system.settings.kafka.bootstrap_servers}",
        f"--set=prefix={system.settings.prefix}",
    )
    code = main(["doctor", "--role=router", "--json", *flags])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return code, {found["about"]: found for found in findings}


def test_topics_that_are_missing_are_found_on_a_broker_that_is_well(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = examined(system, capsys)
    assert (code, found["broker"]["grade"], found["topics"]["grade"]) == (1, "well", "bad")
    assert "topics create" in found["topics"]["cure"]


def test_topics_and_rights_are_seen_and_nobody_who_speaks(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(system.create(2))
    code, found = examined(system, capsys)
    assert code == 1
    assert (found["topics"]["grade"], found["rights"]["grade"]) == ("well", "well")
    assert "2 partitions each" in found["topics"]["what"]
    assert found["control"]["what"].startswith("no snapshot")


def test_a_clock_that_is_ahead_is_found_in_what_nodes_say(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    async def speak(until: asyncio.Event) -> None:
        async with system.producer() as producer:
            while not until.is_set():
                await say(producer)
                await asyncio.sleep(0.2)

    async def say(producer: AIOKafkaProducer) -> None:
        now_ms = int(time.time() * 1000)
        report = NodeReport(
            node="a", pool="gpu", compute_type=ComputeType.GPU, generation=1,
            state=NodeCondition.READY, slots=1, busy=0, backend="emulated", latency_mean_ms=1.0,
            reported_at_ms=now_ms + 30_000,
        )  # fmt: skip
        told = Snapshot(
            number=1, generation=1, probed_at_ms=now_ms, published_at_ms=now_ms, threshold=10,
            pools={}, nodes=(), requests_included=(), retry_included=(),
        )  # fmt: skip
        await producer.send_and_wait(system.names.nodes, encode(report), key=b"a", partition=0)
        await producer.send_and_wait(
            system.names.control, encode(told), key=SNAPSHOT_KEY, partition=0
        )

    async def examined_meanwhile() -> tuple[int, dict[str, Any]]:
        done = asyncio.Event()
        speaking = asyncio.ensure_future(speak(done))
        found = await asyncio.to_thread(examined, system, capsys)
        done.set()
        await speaking
        return found

    asyncio.run(system.create(2))
    code, found = asyncio.run(examined_meanwhile())
    assert (code, found["control"]["grade"]) == (0, "well")
    assert found["clocks"]["grade"] == "odd"
    assert "node a is" in found["clocks"]["what"]
    assert "ahead of" in found["clocks"]["what"]
