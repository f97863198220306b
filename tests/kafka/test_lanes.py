"""Partitions are owned exactly once, through hand-overs, fencing, doubt and bad records."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from runtime.kafka import transactions
from runtime.kafka.lanes import LaneHost
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Received, Undecodable
from runtime.kafka.transactions import FencedProducer
from tests.kafka.places import PARTITIONS, Place, until

if TYPE_CHECKING:
    from tests.conftest import RunningKafka

pytestmark = pytest.mark.kafka

BATCH = 50  # records of one transaction of the copy lane
ROOM = 200


@pytest.fixture
def place(kafka: RunningKafka) -> Place:
    return Place(kafka.bootstrap_servers)


class CopyLane:
    """A role as small as can be: it copies records and keeps their count in the metadata."""

    def __init__(self, place: Place, number: int) -> None:
        self.number = number
        self.opens = 0
        self.closed = False
        self._place = place
        self._queue: deque[tuple[TopicPartition, Received]] = deque()
        self._offered = asyncio.Event()
        self._committed: dict[TopicPartition, Committed] = {}

    async def recover(self, tp: TopicPartition) -> Committed | None:  # noqa: ARG002  the protocol's
        return None

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        self.opens += 1
        self._queue.clear()
        self._committed = dict(committed)
        return {tp: found.offset for tp, found in committed.items()}

    def room(self, tp: TopicPartition) -> bool:  # noqa: ARG002  one queue for both
        return len(self._queue) < ROOM

    def offer(self, tp: TopicPartition, records: Sequence[Received]) -> None:
        self._queue.extend((tp, record) for record in records)
        self._offered.set()

    async def run(self, producer: FencedProducer) -> None:
        while True:
            await self._offered.wait()
            self._offered.clear()
            while self._queue:
                await self._copy(producer)

    async def _copy(self, producer: FencedProducer) -> None:
        outputs, offsets = Outputs(), dict(self._committed)
        for tp, record in [self._queue[i] for i in range(min(BATCH, len(self._queue)))]:
            origin = f"{tp.topic}/{tp.partition}/{record.offset}".encode()
            if isinstance(record, Undecodable):
                outputs.add(self._place.out, 0, origin, None, [("why", record.why.encode())])
            else:
                outputs.add(self._place.out, 0, origin, record.value, record.headers)
            count = int(offsets[tp].metadata or 0) + 1
            offsets[tp] = Committed(record.offset + 1, str(count))
        await producer.commit(outputs, offsets)
        self._committed = offsets
        for _ in range(outputs.records):
            self._queue.popleft()

    async def drain(self) -> None:
        await until(lambda: not self._queue)

    async def close(self) -> None:
        self.closed = True


def hosted(place: Place, lanes: dict[int, CopyLane] | None = None) -> LaneHost:
    """Return a host of copy lanes; `lanes` gets each lane made, by number."""
    made = {} if lanes is None else lanes

    def lane(number: int) -> CopyLane:
        made[number] = CopyLane(place, number)
        return made[number]

    return LaneHost(
        place.connection,
        group=place.group,
        leader=place.leader,
        followers=[place.follower],
        lane=lane,
    )


@contextlib.asynccontextmanager
async def running(host: LaneHost) -> AsyncIterator[LaneHost]:
    """Run a host and stop it at the end; an error of the host fails the test."""
    task = asyncio.ensure_future(host.run())
    try:
        yield host
    finally:
        await host.stop(within_s=5)
        await task


async def each_once(place: Place, count: int) -> None:
    """Wait for `count` copies, then check that none is doubled."""

    async def there() -> bool:
        return len(await place.copies()) >= count

    await until(there)
    origins = Counter(origin for origin, _ in await place.copies())
    assert {origin: n for origin, n in origins.items() if n != 1} == {}
    assert len(origins) == count


async def test_a_lane_owns_its_partition_of_the_leader_and_of_the_follower(place: Place) -> None:
    await place.create()
    await place.produce(place.leader, 40)
    await place.produce(place.follower, 20)
    lanes: dict[int, CopyLane] = {}
    async with running(hosted(place, lanes)) as host:
        await each_once(place, 60)
        assert host.assigned == set(range(PARTITIONS))
        assert set(host.open_lanes) == set(lanes) == set(range(PARTITIONS))
        assert host.unready is None
        assert host.generation >= 1
        assert host.counts.first_starts == 2 * PARTITIONS
    assert all(lane.closed for lane in lanes.values())
    async with OffsetReader(place.connection) as offsets:
        tps = [TopicPartition(place.leader, 0), TopicPartition(place.follower, 0)]
        committed = await offsets.committed(place.group, tps)
    assert committed == {tps[0]: Committed(10, "10"), tps[1]: Committed(5, "5")}


async def test_hand_overs_under_load_lose_and_double_nothing(place: Place) -> None:
    await place.create()
    load = asyncio.ensure_future(place.produce(place.leader, 4000))
    again = asyncio.ensure_future(place.produce(place.follower, 1000))
    async with running(hosted(place)) as first:
        await until(lambda: len(first.open_lanes) == PARTITIONS)
        async with running(hosted(place)) as second:
            await until(lambda: len(second.open_lanes) == len(first.open_lanes) == 2)
            async with running(hosted(place)) as third:
                await until(lambda: len(third.open_lanes) == 1)
            await until(lambda: len(second.open_lanes) + len(first.open_lanes) == PARTITIONS)
        await until(lambda: len(first.open_lanes) == PARTITIONS)
        await asyncio.gather(load, again)
        await each_once(place, 5000)


async def test_a_partition_that_stays_does_not_start_again(place: Place) -> None:
    await place.create()
    lanes: dict[int, CopyLane] = {}
    async with running(hosted(place, lanes)) as first:
        await until(lambda: len(first.open_lanes) == PARTITIONS)
        before = dict(lanes)
        async with running(hosted(place)) as second:
            await until(lambda: len(second.open_lanes) == 2 and len(first.open_lanes) == 2)
            for number in first.open_lanes:
                assert lanes[number] is before[number]
                assert lanes[number].opens == 1
            assert sum(lane.closed for lane in before.values()) == 2
            assert first.counts.assignments == 2


async def test_a_host_that_was_fenced_takes_its_partition_back(place: Place) -> None:
    await place.create(partitions=1)
    async with running(hosted(place)) as host:
        await until(lambda: host.unready is None)
        intruder = place.producer()
        await intruder.open()
        await intruder.close()
        await place.produce(place.leader, 10, partitions=1)
        await each_once(place, 10)
        assert host.counts.fenced == 1


async def test_doubt_about_a_commit_is_settled_by_the_committed_offset(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await place.create(partitions=1)
    monkeypatch.setattr(transactions, "SLOW_COMMIT_S", 0.0)  # every commit is in doubt
    async with running(hosted(place)) as host:
        await place.produce(place.leader, 30, partitions=1)
        await each_once(place, 30)
        assert host.counts.unknown_outcomes > 0


class BadHeaderKey(BatchBuilder):  # type: ignore[misc]  # aiokafka is untyped
    """A batch whose header key XX is replaced by bytes that are not UTF-8."""

    def _build(self) -> bytes:
        raw = bytearray(super()._build()).replace(b"XX", b"\xff\xfe")
        raw[17:21] = calc_crc32c(bytes(raw[21:])).to_bytes(4, "big")
        self._buffer = bytes(raw)
        return self._buffer


async def test_undecodable_records_are_stepped_over_and_their_neighbours_arrive(
    place: Place,
) -> None:
    await place.create(partitions=1)
    plain = AIOKafkaProducer(**place.connection)
    await plain.start()
    batch = BadHeaderKey(64 * 1024, 0)
    for value in (b"good before", b"bad", b"good behind"):
        headers = [("XX", b"")] if value == b"bad" else [("h", b"1")]
        batch.append(timestamp=None, key=None, value=value, headers=headers)
    await (await plain.send_batch(batch, place.leader, partition=0))
    await plain.stop()
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        send(place, codec, codec.encode())
    send(place, "zstd", bytes(40 * 1024 * 1024))  # a bomb: a few kB on the wire
    send(place, "none", b"last")
    async with running(hosted(place)):
        await each_once(place, 9)
        values = [value for _, value in await place.copies()]
    assert values == [
        b"good before",
        None,
        b"good behind",
        b"gzip",
        b"snappy",
        b"lz4",
        b"zstd",
        None,
        b"last",
    ]


def send(place: Place, codec: str, value: bytes) -> None:
    """Produce one record with another client library."""
    producer = Producer(
        {
            "bootstrap.servers": place.connection["bootstrap_servers"],
            "compression.type": codec,
            "message.max.bytes": 100_000_000,
        }
    )
    producer.produce(place.leader, value, partition=0)
    assert producer.flush(10) == 0


async def test_lost_offsets_hold_the_lane_until_someone_accepts(place: Place) -> None:
    await place.create(partitions=1)
    await place.produce(place.leader, 10, partitions=1)
    tp = TopicPartition(place.leader, 0)
    admin = AIOKafkaAdminClient(**place.connection)
    await admin.start()
    await admin.delete_records({tp: RecordsToDelete(before_offset=4)})
    await admin.close()
    async with running(hosted(place)) as host:
        await until(lambda: "offsets-lost" in (host.unready or ""))
        assert host.open_lanes == {}
        accept = place.producer()
        await accept.open()
        await accept.commit(Outputs(), {tp: Committed(4, "")})
        await accept.close()
        await each_once(place, 6)
        assert host.unready is None
