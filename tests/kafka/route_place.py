"""Topics, requests and a router for one test, and what the router made of the requests."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from executors.backends.base import Backend
from executors.node import Node
from executors.settings import NodeOptions
from lab.instruments.roomy_snapshot import roomy_snapshot
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import create_topics
from runtime.metrics import Metrics
from runtime.settings import KafkaSettings, Settings
from schemas import headers as h
from schemas.control import SNAPSHOT_KEY, Snapshot
from schemas.message import encode
from schemas.metadata import RouterCounts, decode_router
from schemas.pools import DEFAULT_POOLS, Pool
from schemas.topics import EMBEDDED_PARTITIONS, catalogue, pool_topics, router_group
from streams.router.service import Router, open_router
from tests.kafka.reading import Written, read_all

_numbers = itertools.count()


class RoutePlace:
    """One router group's topics on the shared broker."""

    def __init__(self, bootstrap_servers: str, pools: tuple[Pool, ...] = DEFAULT_POOLS) -> None:
        self.settings = Settings(
            pools=pools,
            prefix=f"r{os.getpid()}-{next(_numbers)}.",
            kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
        )
        self.names = self.settings.topics
        self.group = router_group(self.settings.prefix)
        self.connection = {"bootstrap_servers": bootstrap_servers}
        self.pool_topics = [self.settings.prefix + t for t in pool_topics(self.settings.pools)]

    async def create(self) -> None:
        """Create the topics, and publish a snapshot of a fleet with room."""
        await create_topics(self.connection, catalogue(self.names, self.settings.pools))
        await self.publish(roomy_snapshot(self.settings))

    async def publish(self, snapshot: Snapshot) -> None:
        """Publish a snapshot as control does."""
        producer = AIOKafkaProducer(**self.connection)
        await producer.start()
        try:
            await producer.send_and_wait(self.names.control, encode(snapshot), key=SNAPSHOT_KEY)
        finally:
            await producer.stop()

    async def request(self, values: Iterable[bytes | None], **send: Any) -> None:
        """Produce values to `requests`, to all partitions in turn unless told otherwise."""
        producer = AIOKafkaProducer(**self.connection, max_request_size=1 << 21)
        await producer.start()
        try:
            sent = [
                await producer.send(
                    self.names.requests,
                    value,
                    **({"partition": number % EMBEDDED_PARTITIONS, "key": b"k"} | send),
                )
                for number, value in enumerate(values)
            ]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()

    @asynccontextmanager
    async def router(self, instance_id: str | None = None) -> AsyncIterator[Router]:
        """Run a router in this process."""
        kafka = self.settings.kafka.model_copy(update={"instance_id": instance_id})
        settings = self.settings.model_copy(update={"kafka": kafka})
        role = await open_router(settings, self.connection, Metrics("router", "test"))
        work = asyncio.ensure_future(role.run())
        try:
            yield role
        finally:
            await role.stop(5)
            await work

    def router_process(self, *flags: str) -> subprocess.Popen[bytes]:
        """Start a router process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "router", "--bootstrap-servers",
             self.settings.kafka.bootstrap_servers, "--set", f"prefix={self.settings.prefix}",
             *flags],
        )  # fmt: skip

    async def counts(self) -> list[RouterCounts]:
        """Return the committed counts of every input partition."""
        partitions = [
            TopicPartition(topic, number)
            for topic in (self.names.requests, self.names.retry)
            for number in range(EMBEDDED_PARTITIONS)
        ]
        async with OffsetReader(self.connection) as offsets:
            found = await offsets.committed(self.group, partitions)
        return [decode_router(said.metadata) for said in found.values() if said and said.metadata]

    async def consumed(self) -> int:
        """Return how many records all routers have taken."""
        return sum(counts.consumed for counts in await self.counts())

    async def read(self, *topics: str) -> list[Written]:
        """Return all committed records of topics, from their beginning."""
        return await read_all(
            self.connection,
            [TopicPartition(topic, p) for topic in topics for p in range(EMBEDDED_PARTITIONS)],
        )

    async def endings(self) -> Counter[bytes]:
        """Return how often each origin was routed, ended or buried, over all output topics."""
        records = await self.read(*self.pool_topics, self.names.results, self.names.dead_letter)
        return Counter(dict(record.headers)[h.ORIGIN] for record in records)

    async def open_transactions(self) -> bool:
        """Return whether a transaction is open on a pool partition: its end is not stable yet."""
        partitions = [
            TopicPartition(topic, p)
            for topic in self.pool_topics
            for p in range(EMBEDDED_PARTITIONS)
        ]
        async with OffsetReader(self.connection) as offsets:
            return await offsets.end(partitions) != await offsets.end(partitions, stable=False)


@asynccontextmanager
async def running_node(place: RoutePlace, pool: str, backend: Backend) -> AsyncIterator[Node]:
    """Run a node of a pool, named after it with number 1, on a ready-made backend."""
    options = NodeOptions(pool=pool, backend="made", slots=2, node_id=f"{pool}-1")
    node = Node(place.settings, place.connection, options, backend, Metrics("executor", "0"))
    work = asyncio.ensure_future(node.run())
    try:
        yield node
    finally:
        await node.stop(5)
        await work
