"""The ledger of results says what nodes have measured, runs that were handed back included."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import orjson
import pytest

from deploy.cli import main
from executors.backends.base import BackendError, Call, Completion
from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from executors.node import Node
from lab.instruments.roomy_snapshot import roomy_snapshot
from schemas.outcomes import ErrorCategory
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace, running_node
from tests.waiting import in_time, until

pytestmark = pytest.mark.kafka

RUN_MS = 30
REQUESTS = 24
PRICES = {"gpu": 1.0, "cpu": 0.1}


class FailsAtEach4th(Emulated):
    """A backend that fails at some requests, after it has run them."""

    async def infer(self, call: Call) -> Completion:
        completion = await super().infer(call)
        if int(call.request_id) % 4 == 0:
            raise BackendError(ErrorCategory.BACKEND_ERROR, "out of memory")
        return completion


def busy_seconds(node: Node, pool: str) -> float:
    """Return what the node exports as its time in slots."""
    name = "overspill_executor_run_seconds_sum"
    return node._meter._metrics.registry.get_sample_value(name, {"pool": pool}) or 0.0


async def test_costs_are_busy_time_by_coefficient(
    kafka: RunningKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    seen = roomy_snapshot(place.settings)
    nodes = [
        node.model_copy(update={"partitions": (0, 1, 2, 3)})
        for node in seen.nodes
        if node.id in {"gpu-1", "cpu-1"}
    ]
    await place.publish(seen.model_copy(update={"number": 2, "nodes": tuple(nodes)}))
    await place.request(
        orjson.dumps(
            {
                "id": str(number),
                "model_name": f"m{number % 2}",
                "tenant": f"team-{number % 3}",
                "payload": {"prompt": "x"},
            }
        )
        for number in range(REQUESTS)
    )

    async def all_ended() -> bool:
        return len(await place.read(place.names.results)) == REQUESTS

    async with AsyncExitStack() as running:
        profile = Profile(fixed_ms=RUN_MS)
        backends = {"gpu": FailsAtEach4th(profile, "gpu"), "cpu": Emulated(profile, "cpu")}
        made = {
            pool: await running.enter_async_context(running_node(place, pool, backend))
            for pool, backend in backends.items()
        }
        await running.enter_async_context(place.router())
        await until(all_ended, in_time(30))
        busy_s = {pool: busy_seconds(node, pool) for pool, node in made.items()}

    async def told(*flags: str) -> dict[str, object]:
        command = [
            "cost", "--json", *flags, f"--bootstrap-servers={kafka.bootstrap_servers}",
            f"--set=prefix={place.settings.prefix}",
        ]  # fmt: skip
        assert await asyncio.to_thread(main, command) == 0
        document: dict[str, object] = orjson.loads(capsys.readouterr().out)
        return document

    by_pool = await told("--by", "pool")
    lines = {line["pool"]: line for line in by_pool["lines"]}  # type: ignore[attr-defined]
    assert lines.keys() == PRICES.keys()
    for pool, coefficient in PRICES.items():
        assert lines[pool]["cost"] == pytest.approx(busy_s[pool] * coefficient, rel=1e-3)
    assert lines["cpu"]["requests"] >= REQUESTS / 4  # those that the gpu's node handed back
    # A quarter of the gpu's time is of runs whose requests ended elsewhere.
    assert busy_s["gpu"] > (lines["gpu"]["requests"] + 1) * RUN_MS / 1000

    whole = await told()
    assert whole["by"] == ["day", "tenant", "model", "pool"]
    assert whole["total"] == pytest.approx(by_pool["total"])
    named = {(line["tenant"], line["model"]) for line in whole["lines"]}  # type: ignore[attr-defined]
    assert len(named) == 6
    assert (await told("--since", "2100-01-01T00:00:00Z"))["lines"] == []
