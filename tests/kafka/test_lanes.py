"""Partitions are owned exactly once, through hand-overs, fencing, doubt and restarts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.structs import TopicPartition
from confluent_kafka.admin import AdminClient

from runtime.kafka import transactions
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from tests.kafka.copier import CopyLane, each_once, hosted, running
from tests.kafka.places import PARTITIONS, Place
from tests.waiting import until

if TYPE_CHECKING:
    from tests.conftest import RunningKafka

pytestmark = pytest.mark.kafka


@pytest.fixture
def place(kafka: RunningKafka) -> Place:
    return Place(kafka.bootstrap_servers)


async def members(place: Place) -> list[str | None]:
    """Return the static names of the group's members, None for one without."""
    admin = AdminClient({"bootstrap.servers": place.connection["bootstrap_servers"]})
    described = admin.describe_consumer_groups([place.group])[place.group]
    found = await asyncio.to_thread(described.result, 10)
    return [member.group_instance_id or None for member in found.members]


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
    await place.settle()
    async with OffsetReader(place.connection) as offsets:
        tps = [TopicPartition(place.leader, 0), TopicPartition(place.follower, 0)]
        committed = await offsets.committed(place.group, tps)
    assert committed == {tps[0]: Committed(10, "10"), tps[1]: Committed(5, "05")}


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


async def test_added_partitions_get_lanes_while_the_others_go_on(place: Place) -> None:
    await place.create(partitions=2)
    lanes: dict[int, CopyLane] = {}
    async with running(hosted(place, lanes)) as host:
        await until(lambda: len(host.open_lanes) == 2)
        admin = AIOKafkaAdminClient(**place.connection)
        await admin.start()
        for topic in (place.follower, place.leader):
            await admin.create_partitions({topic: NewPartitions(4)})
        await admin.close()
        await until(lambda: len(host.open_lanes) == 4)
        await place.produce(place.leader, 40, partitions=4)
        await place.produce(place.follower, 40, partitions=4)
        await each_once(place, 80)
        assert lanes[0].opens == lanes[1].opens == 1


async def test_a_static_member_that_died_takes_its_partitions_up_again_at_once(
    place: Place,
) -> None:
    await place.create()
    await place.produce(place.leader, 100)
    first = hosted(place, instance_id="one")
    task = asyncio.ensure_future(first.run())
    await until(lambda: len(first.open_lanes) == PARTITIONS)
    task.cancel()  # a static member never leaves the group
    await asyncio.wait({task})
    async with running(hosted(place, instance_id="one")) as second:
        await until(lambda: len(second.open_lanes) == PARTITIONS, within_s=5)
        await place.produce(place.leader, 100)
        await each_once(place, 200)


async def test_who_stops_leaves_the_group_at_once_and_a_static_member_stays_in_it(
    place: Place,
) -> None:
    await place.create()
    async with running(hosted(place)) as first:
        await until(lambda: len(first.open_lanes) == PARTITIONS)
        async with running(hosted(place)) as second:
            await until(lambda: len(second.open_lanes) == 2)
        assert await members(place) == [None]
        async with running(hosted(place, instance_id="kept")) as static:
            await until(lambda: len(static.open_lanes) == 2)
        assert sorted(await members(place), key=str) == [None, "kept"]


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
        await accept.commit(Outputs(), {tp: Committed(4, "04")})
        await accept.close()
        await each_once(place, 6)
        assert host.unready is None
