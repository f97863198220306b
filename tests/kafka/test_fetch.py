"""What a lane is offered: every committed record, and a word on each that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.util import calc_crc32c
from confluent_kafka import Producer

from tests.kafka.copier import each_once, hosted, running
from tests.kafka.places import Place

if TYPE_CHECKING:
    from tests.conftest import RunningKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
async def place(kafka: RunningKafka) -> Place:
    place = Place(kafka.bootstrap_servers)
    await place.create(partitions=1)
    return place


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


async def test_aborted_records_are_never_offered(place: Place) -> None:
    upstream = AIOKafkaProducer(transactional_id=f"{place.group}-upstream", **place.connection)
    await upstream.start()
    for value, commit in ((b"aborted", False), (b"kept", True), (b"aborted too", False)):
        await upstream.begin_transaction()
        await upstream.send_and_wait(place.leader, value, partition=0)
        await (upstream.commit_transaction() if commit else upstream.abort_transaction())
    await upstream.stop()
    await place.produce(place.leader, 1, partitions=1)
    async with running(hosted(place)):
        await each_once(place, 2)
        assert [value for _, value in await place.copies()] == [b"kept", b"0"]
