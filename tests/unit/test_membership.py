"""A member of a group: what goes wrong in an assignment must not go unnoticed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.counts import HostCounts
from runtime.kafka.membership import Membership

PLACE = TopicPartition("requests", 0)


class FakeConsumer:
    """A consumer that is assigned a partition as soon as it subscribes."""

    _coordinator = SimpleNamespace(generation=3)

    def __init__(self) -> None:
        self.told: list[str] = []

    async def start(self) -> None:
        self.told.append("start")

    async def stop(self) -> None:
        self.told.append("stop")

    async def getmany(self, **_: Any) -> dict[TopicPartition, Any]:
        return {}

    def subscribe(self, _: object, listener: Membership) -> None:
        listener.on_partitions_assigned({PLACE})

    def pause(self, *_: TopicPartition) -> None:
        self.told.append("pause")

    def seek(self, *_: object) -> None:
        """Take any position."""


async def test_a_fault_in_an_assignment_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty() -> None:
        raise ZeroDivisionError

    member = Membership(
        {}, group="g", leader="requests", followers=(), counts=HostCounts(), on_assigned=faulty
    )
    consumer = FakeConsumer()
    monkeypatch.setattr(member, "_new_consumer", lambda: consumer)
    with pytest.raises(ZeroDivisionError):
        await member.run()
    assert consumer.told == ["start", "pause", "stop"]
    assert not member.settled
