"""What nodes say when they refuse reaches whoever waits for the result."""

from __future__ import annotations

from contextlib import AsyncExitStack

import orjson
import pytest

from executors.backends.base import BackendError, Call, Completion
from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from lab.instruments.roomy_snapshot import roomy_snapshot
from schemas.outcomes import ErrorCategory
from tests.conftest import RunningKafka
from tests.kafka.reading import Written
from tests.kafka.route_place import RoutePlace, running_node
from tests.waiting import until

pytestmark = pytest.mark.kafka


class WithoutAdapters(Emulated):
    """A backend that has no adapter, whichever is asked for."""

    async def infer(self, call: Call) -> Completion:
        message = f"this node has no adapter {call.adapter}"
        raise BackendError(ErrorCategory.ADAPTER_NOT_FOUND, message)


async def test_a_request_that_every_node_refused_says_why_they_did(kafka: RunningKafka) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    seen = roomy_snapshot(place.settings)
    one_each = [
        node.model_copy(update={"partitions": (0, 1, 2, 3)})
        for node in seen.nodes
        if node.id.endswith("-1")
    ]
    await place.publish(seen.model_copy(update={"number": 2, "nodes": tuple(one_each)}))
    asked = {"id": "r", "model_name": "m", "adapter": "a", "payload": {"prompt": "hi"}}
    await place.request([orjson.dumps(asked)])
    ended: list[Written] = []

    async def has_ended() -> bool:
        ended[:] = await place.read(place.names.results)
        return bool(ended)

    async with AsyncExitStack() as running:
        for pool in ("gpu", "cpu", "npu"):
            backend = WithoutAdapters(Profile(fixed_ms=0), pool)
            await running.enter_async_context(running_node(place, pool, backend))
        await running.enter_async_context(place.router())
        await until(has_ended)
    result = orjson.loads(ended[0].value or b"")
    assert (result["attempt"], result["error"]["category"]) == (4, "unroutable")
    assert result["error"]["message"].endswith(
        "; npu-1, gpu-1, cpu-1 said adapter-not-found: this node has no adapter a"
    )
