"""Topics and a group that one test has for itself, and what is read back from them."""

from __future__ import annotations

import asyncio
import itertools
import os

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer, transactional_id
from tests.kafka.reading import read_all
from tests.waiting import until

PARTITIONS = 4
LIMIT = 1024 * 1024  # bytes of a record that the follower topic takes

_numbers = itertools.count()


class Place:
    """A leader topic, its follower, an output topic of one partition, and a group."""

    def __init__(self, bootstrap_servers: str) -> None:
        name = f"t{os.getpid()}-{next(_numbers)}"
        self.connection = {"bootstrap_servers": bootstrap_servers}
        self.leader, self.follower, self.out = f"{name}.in", f"{name}.again", f"{name}.out"
        self.group = f"{name}.copier"

    async def create(self, partitions: int = PARTITIONS) -> None:
        limited = {"max.message.bytes": str(LIMIT)}
        admin = AIOKafkaAdminClient(**self.connection)
        await admin.start()
        try:
            await admin.create_topics(
                [
                    NewTopic(self.leader, partitions, 1),
                    NewTopic(self.follower, partitions, 1, topic_configs=limited),
                    NewTopic(self.out, 1, 1),
                ]
            )
        finally:
            await admin.close()
        made = [
            TopicPartition(t, p) for t in (self.leader, self.follower) for p in range(partitions)
        ]
        async with OffsetReader(self.connection) as offsets:  # until then their leaders refuse
            await offsets.begin([*made, TopicPartition(self.out, 0)])

    def first(self) -> TopicPartition:
        return TopicPartition(self.leader, 0)

    def producer(self) -> FencedProducer:
        """Return a producer with the transactional id of lane 0."""
        identity = transactional_id(self.group, self.leader, 0)
        return FencedProducer(self.connection, identity, self.group)

    async def settle(self) -> None:
        """Return once what lane 0 committed can be read: its end is confirmed a little before."""
        successor = self.producer()
        await successor.open()  # which waits for it
        await successor.close()

    def outputs(self, *origins: bytes) -> Outputs:
        outputs = Outputs()
        for origin in origins:
            outputs.add(self.out, 0, origin, None)
        return outputs

    async def produce(self, topic: str, count: int, partitions: int = PARTITIONS) -> None:
        """Produce numbers to all partitions in turn, 20 of them every 20 ms."""
        producer = AIOKafkaProducer(**self.connection)
        await producer.start()
        try:
            for number in range(count):
                await producer.send(topic, b"%d" % number, partition=number % partitions)
                if number % 20 == 0:
                    await asyncio.sleep(0.02)
        finally:
            await producer.stop()

    async def copies(self) -> list[tuple[bytes, bytes | None]]:
        """Return key and value of all committed records of the output topic."""
        return await self.read(TopicPartition(self.out, 0))

    async def read(self, partition: TopicPartition) -> list[tuple[bytes, bytes | None]]:
        """Return key and value of a partition's committed records, once no transaction is open.

        A commit is confirmed a little before readers see what it wrote.
        """

        async def ended() -> bool:
            async with OffsetReader(self.connection) as offsets:
                stable = await offsets.end([partition])
                return stable == await offsets.end([partition], stable=False)

        await until(ended)
        records = await read_all(self.connection, [partition])
        return [(record.key, record.value) for record in records]
