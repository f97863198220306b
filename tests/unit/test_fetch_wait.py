"""How long the broker may hold an empty answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import MAX_WAIT_FOR_ROOM_MS, MAX_WAIT_MS, Fetcher

BUSY, IDLE = TopicPartition("t", 0), TopicPartition("t", 1)


class Asked:
    """A broker that notes the first request and never answers."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.request: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def send(self, _node: int, request: object) -> None:
        self.request.set_result(request)
        await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("wanted", "max_wait_ms", "asked_for"),
    [
        ({BUSY: 7, IDLE: 3}, MAX_WAIT_MS, {0, 1}),
        ({BUSY: None, IDLE: 3}, MAX_WAIT_FOR_ROOM_MS, {1}),
    ],
)
async def test_it_is_held_shortly_only_while_a_partition_waits_for_room(
    wanted: Mapping[TopicPartition, int | None], max_wait_ms: int, asked_for: set[int]
) -> None:
    broker = Asked()
    sink = SimpleNamespace(wanted=lambda: wanted)
    fetching = asyncio.ensure_future(Fetcher(broker, sink, HostCounts()).run())  # type: ignore[arg-type]
    request = vars(await asyncio.wait_for(broker.request, 5))
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await fetching
    assert request["_max_wait_ms"] == max_wait_ms
    assert {
        number for _, partitions in request["_topics"] for number, *_ in partitions
    } == asked_for
