"""When transactions were committed, to the millisecond: read from their markers in the log.

A consumer never sees the marker that ends a transaction; the broker stamps it with its own clock at
the moment it makes the transaction's records visible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from typing import NamedTuple

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection, connect
from runtime.kafka.offsets import OffsetReader
from schemas.topics import MIB

WAIT_MS = 200
BYTES_MAX = 8 * MIB


class CommittedRecord(NamedTuple):
    """A record's value, and when its transaction was committed, epoch ms on the broker's clock."""

    value: bytes
    at_ms: int


async def committed_records(
    connection: Connection, topic: str, partitions: int
) -> list[CommittedRecord]:
    """Return all committed records of a topic that nobody writes to any more, in commit order."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    async with OffsetReader(connection) as offsets:
        ends = await offsets.end(places, stable=False)
    client = await connect(connection)
    try:
        found = [record for place in places async for record in _read(client, place, ends[place])]
    finally:
        await client.close()
    return sorted(found, key=lambda record: record.at_ms)


async def _read(
    client: AIOKafkaClient, place: TopicPartition, end: int
) -> AsyncIterator[CommittedRecord]:
    client.add_topic(place.topic)
    await client.force_metadata_update()
    leader = client.cluster.leader_for_partition(place)
    open_ones: dict[int, list[bytes]] = defaultdict(list)
    at = 0
    while at < end:
        request = FetchRequest(
            WAIT_MS, 1, BYTES_MAX, 0, [(place.topic, [(place.partition, at, BYTES_MAX)])]
        )
        answer = await client.send(leader, request)
        ((_, ((_, error_code, *_, data),)),) = answer.topics
        if error_code:
            raise kafka_errors.for_code(error_code)(f"reading {place}")
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            at = batch.next_offset
            if not batch.is_control_batch:
                open_ones[batch.producer_id] += [record.value or b"" for record in batch]
                continue
            ended = open_ones.pop(batch.producer_id, [])
            (marker,) = batch
            if ControlRecord.parse(marker.key) != ABORT_MARKER:
                for value in ended:
                    yield CommittedRecord(value, batch.max_timestamp)
