"""What groups committed and where partitions begin and end, read with few requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Bounds, Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from schemas.errors import BrokerUnreachable
from tests.kafka.places import Place

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import RunningKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
async def place(kafka: RunningKafka) -> Place:
    place = Place(kafka.bootstrap_servers)
    await place.create()
    return place


@pytest.fixture
async def offsets(place: Place) -> AsyncIterator[OffsetReader]:
    async with OffsetReader(place.connection) as reader:
        yield reader


async def test_a_group_that_never_committed_has_none(place: Place, offsets: OffsetReader) -> None:
    tps = [TopicPartition(place.leader, 1), TopicPartition(place.follower, 0)]
    assert await offsets.committed(place.group, tps) == dict.fromkeys(tps)


async def test_committed_offsets_come_with_their_metadata(
    place: Place, offsets: OffsetReader
) -> None:
    tps = [TopicPartition(t, n) for t in (place.leader, place.follower) for n in (0, 1)]
    producer = place.producer()
    await producer.open()
    given = {tps[0]: Committed(5, "x" * 4096), tps[3]: Committed(0, "")}
    await producer.commit(Outputs(), given)
    await producer.close()
    await place.settle()
    found = await offsets.committed(place.group, tps)
    assert found == {tps[0]: given[tps[0]], tps[1]: None, tps[2]: None, tps[3]: given[tps[3]]}


async def test_nothing_is_asked_for_no_partitions(offsets: OffsetReader) -> None:
    assert await offsets.committed("nobody", []) == {}
    assert await offsets.bounds([]) == {}


async def test_bounds_tell_what_the_log_still_has(place: Place, offsets: OffsetReader) -> None:
    tp = place.first()
    await place.produce(place.leader, 6, partitions=1)
    admin = AIOKafkaAdminClient(**place.connection)
    await admin.start()
    await admin.delete_records({tp: RecordsToDelete(before_offset=2)})
    await admin.close()
    other = TopicPartition(place.follower, 3)
    assert await offsets.bounds([tp, other]) == {tp: Bounds(2, 6), other: Bounds(0, 0)}


async def test_many_may_ask_at_once(place: Place, offsets: OffsetReader) -> None:
    tps = [TopicPartition(place.leader, n) for n in range(4)]
    answers = await asyncio.gather(*(offsets.committed(place.group, tps) for _ in range(50)))
    assert all(answer == dict.fromkeys(tps) for answer in answers)


async def test_a_partition_that_does_not_exist_is_no_answer(place: Place) -> None:
    async with OffsetReader(place.connection, within_s=0.3) as reader:
        with pytest.raises(BrokerUnreachable):
            await reader.end([TopicPartition(place.leader, 99)])


async def test_no_broker_is_an_error_that_names_the_address() -> None:
    with pytest.raises(BrokerUnreachable, match=r"127\.0\.0\.1:9"):
        await OffsetReader({"bootstrap_servers": "127.0.0.1:9"}).open()
