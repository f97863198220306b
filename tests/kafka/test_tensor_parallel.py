"""The tensor-parallel lane on a real broker: what one GPU is too slow for runs on several."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import orjson
import pytest

from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from executors.node import Node
from lab.instruments.roomy_snapshot import roomy_snapshot
from runtime.settings import load_settings
from schemas.message import decode
from schemas.result import Result
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace, running_node
from tests.waiting import until

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "tensor-parallel.toml"
RUN_MS = {"gpu": 250, "gpu-tp": 20}
REQUESTS = {
    "realtime": {"priority": "realtime"},
    "patient": {"priority": "realtime", "latency_slo_ms": 300},
    "strict": {"latency_slo_ms": 40},
    "normal": {},
}


def node(place: RoutePlace, pool: str) -> AbstractAsyncContextManager[Node]:
    """Run an emulated node of a pool."""
    return running_node(place, pool, Emulated(Profile(fixed_ms=RUN_MS[pool]), pool))


async def test_realtime_work_that_one_gpu_is_too_slow_for_runs_on_several(
    kafka: RunningKafka,
) -> None:
    place = RoutePlace(kafka.bootstrap_servers, load_settings(EXAMPLE).pools)
    await place.create()
    seen = roomy_snapshot(place.settings)
    slow = [n.model_copy(update={"latency_ms": RUN_MS.get(n.pool, 50.0)}) for n in seen.nodes]
    await place.publish(seen.model_copy(update={"number": 2, "nodes": tuple(slow)}))
    await place.request(
        orjson.dumps({"id": name, "model_name": "m", "payload": {"prompt": "hi"}, **said})
        for name, said in REQUESTS.items()
    )
    async with AsyncExitStack() as running:
        for work in (node(place, "gpu"), node(place, "gpu-tp"), place.router()):
            await running.enter_async_context(work)
        results: dict[str, Result] = {}

        async def all_ended() -> bool:
            for record in await place.read(place.names.results):
                result = decode(Result, record.value or b"")
                results[result.id] = result
            return len(results) == len(REQUESTS)

        await until(all_ended)
    assert {
        name: (result.decision.reason.value, result.served_by and result.served_by.pool)
        for name, result in results.items()
    } == {
        "realtime": ("tensor-parallel", "gpu-tp"),
        "patient": ("realtime", "gpu"),
        "strict": ("strict-slo", "gpu"),
        "normal": ("gpu-preferred", "gpu"),
    }
    fast = results["realtime"]
    assert fast.served_by is not None
    assert fast.served_by.emulated
    assert RUN_MS["gpu-tp"] <= fast.timings_ms.run < RUN_MS["gpu"]
    assert fast.cost == pytest.approx(4.0 * fast.timings_ms.run / 1000, rel=0.5)
    assert [r.topic for r in await place.read(place.names.express("gpu-tp"))] == [
        place.names.express("gpu-tp")
    ]
