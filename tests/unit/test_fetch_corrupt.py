"""A batch that fails its checksum: fetched again (the wire may be to blame), then stepped over."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

from aiokafka.structs import TopicPartition

from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import CORRUPT_TRIES, Fetcher
from runtime.kafka.records import Decoded, Undecodable
from tests.unit.test_records import batch

TP = TopicPartition("t", 0)
FETCH_V4 = 4


class Broker:
    """It sends the same bytes to whoever asks, and counts the questions."""

    def __init__(self, data: bytes, end: int) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.asked = 0
        self._entry = (TP.partition, 0, end, end, [], data)

    async def send(self, _node: int, _request: object) -> SimpleNamespace:
        self.asked += 1
        return SimpleNamespace(API_VERSION=FETCH_V4, topics=[(TP.topic, [self._entry])])


class Partition:
    """Who wants all records of one partition."""

    def __init__(self) -> None:
        self.offset = 2
        self.received: list[Decoded] = []
        self.passed = asyncio.Event()

    def wanted(self) -> dict[TopicPartition, int | None]:
        return {} if self.passed.is_set() else {TP: self.offset}

    def deliver(self, _tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        assert asked == self.offset
        self.received.append(decoded)
        self.offset = decoded.next_offset
        self.passed.set()


async def test_a_wrong_checksum_is_asked_for_again_and_then_stepped_over() -> None:
    broken = bytearray(batch(2, [b"c", b"d"]))
    broken[-1] ^= 1
    broker, partition = Broker(bytes(broken), 4), Partition()
    fetching = asyncio.ensure_future(Fetcher(broker, partition, HostCounts()).run())  # type: ignore[arg-type]
    await asyncio.wait_for(partition.passed.wait(), 5)
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await fetching
    assert broker.asked == CORRUPT_TRIES + 1
    (decoded,) = partition.received
    assert [(record.offset, type(record)) for record in decoded.records] == [
        (2, Undecodable),
        (3, Undecodable),
    ]
    assert partition.offset == 4
