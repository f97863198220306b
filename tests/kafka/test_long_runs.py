"""Work that takes longer than a group lets its members be silent."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from executors.backends.base import Call, Completion
from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from runtime.kafka import membership
from schemas.topics import executor_group
from tests.conftest import RunningKafka
from tests.kafka.pool_place import PoolPlace, running
from tests.waiting import until

pytestmark = pytest.mark.kafka

MAX_POLL_INTERVAL_S = 1.0
RUN_S = 4.0
"""With a member that were silent so long, the group would have rebalanced three times."""


class Slow(Emulated):
    """A backend that counts what it begins."""

    def __init__(self) -> None:
        super().__init__(Profile(fixed_ms=RUN_S * 1000), "bench")
        self.begun: Counter[str] = Counter()

    async def infer(self, call: Call) -> Completion:
        self.begun[call.request_id] += 1
        return await super().infer(call)


class Impatient(membership.AIOKafkaConsumer):
    """A member that leaves its group when it was not polled for a second."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, max_poll_interval_ms=int(MAX_POLL_INTERVAL_S * 1000))


def members(place: PoolPlace) -> int:
    """Return how many members the pool's group has, as the broker says."""
    admin = AdminClient({"bootstrap.servers": place.connection["bootstrap_servers"]})
    group = executor_group(place.settings.prefix, "gpu")
    return len(admin.describe_consumer_groups([group])[group].result().members)


async def test_a_run_longer_than_the_poll_interval_is_one_run_with_one_result(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "AIOKafkaConsumer", Impatient)
    place = PoolPlace(kafka.bootstrap_servers)
    await place.create()
    backend = Slow()
    node = place.node(backend)
    async with running(node):
        generation = node.report().generation
        await place.route(range(2))
        await until(lambda: place.all_ended(2))
        assert await asyncio.to_thread(members, place) == 1
        assert node.report().generation == generation
    assert set(backend.begun.values()) == {1}
    assert await place.results() == {"r0": 1, "r1": 1}
