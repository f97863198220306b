"""What a coordinator's answer means, where it leaves something out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Committed, OffsetReader
from schemas.errors import BrokerUnreachable

NEVER = (0, -1, "", 0)
"""Partition, offset, metadata, error: nothing is committed."""


class Coordinator:
    """It knows what a group committed in topic `t`, partition by partition."""

    def __init__(self, *entries: tuple[int, int, str, int]) -> None:
        self._entries = entries

    async def coordinator_lookup(self, _kind: object, _group: str) -> int:
        return 1

    async def send(self, _node: int, _request: object, **_: object) -> SimpleNamespace:
        return SimpleNamespace(error_code=0, topics=[("t", self._entries)])

    def force_metadata_update(self) -> None:
        pass

    async def close(self) -> None:
        pass


async def read(coordinator: Coordinator, *partitions: int) -> dict[int, Committed | None]:
    """Return by partition what a reader takes the answer for."""
    reader = OffsetReader({}, within_s=0.1)
    reader._client = coordinator  # type: ignore[assignment]
    asked = [TopicPartition("t", partition) for partition in partitions]
    return {tp.partition: found for tp, found in (await reader.committed("g", asked)).items()}


async def test_only_minus_one_means_that_nothing_is_committed() -> None:
    assert await read(Coordinator(NEVER, (1, 7, "m", 0)), 0, 1) == {0: None, 1: Committed(7, "m")}


async def test_a_partition_that_an_answer_leaves_out_is_no_answer() -> None:
    with pytest.raises(BrokerUnreachable):
        await read(Coordinator(NEVER), 0, 1)
