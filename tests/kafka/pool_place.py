"""One fleet's topics under a prefix of its own, a stand-in for its router, what nodes wrote."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from executors.backends.base import Backend
from executors.node import Node
from executors.settings import NodeOptions
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import create_topics
from runtime.metrics import Metrics
from runtime.settings import KafkaSettings, Settings
from schemas.control import NodeReport
from schemas.headers import Origin, Passage, encode_passage
from schemas.message import decode
from schemas.metadata import FinishedCounts, decode_finished
from schemas.topics import catalogue, executor_group
from tests.kafka.reading import Written, read_all
from tests.waiting import in_time, until

PARTITIONS = 2

_numbers = itertools.count()


class PoolPlace:
    """One fleet's topics on the shared broker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.settings = Settings(
            prefix=f"e{os.getpid()}-{next(_numbers)}.",
            kafka=KafkaSettings(bootstrap_servers=bootstrap_servers),
        )
        self.names = self.settings.topics
        self.connection = {"bootstrap_servers": bootstrap_servers}

    async def create(self) -> None:
        topics = catalogue(self.names, self.settings.pools, PARTITIONS)
        await create_topics(self.connection, topics)

    def node(self, backend: Backend, *, slots: int = 2, name: str = "n1") -> Node:
        """Return a node of pool `gpu` on a ready-made backend."""
        options = NodeOptions(pool="gpu", backend="made", slots=slots, node_id=name)
        metrics = Metrics("executor", "0")
        return Node(self.settings, self.connection, options, backend, metrics)

    async def route(
        self,
        numbers: range,
        *,
        topic: str | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        model: str = "m",
        value: bytes | None = None,
        gflops: float | None = None,
        priority: str = "normal",
        arrived_s: float | None = None,
        attempt: int = 1,
    ) -> None:
        """Produce pool records as a router does, ids `r<number>`, to all partitions in turn."""
        producer = AIOKafkaProducer(**self.connection)
        await producer.start()
        try:
            for number in numbers:
                now = int((time.time() if arrived_s is None else arrived_s) * 1000)
                decision = {
                    "reason": "gpu-preferred", "threshold": 10, "policy": "overflow",
                    "decided_at_ms": now, "counts_work": True,
                }  # fmt: skip
                origin = Origin(self.names.requests, number % PARTITIONS, number)
                name = f"r{number}"
                passage = Passage(name, origin, now, attempt, decision=orjson.dumps(decision))
                payload = {"prompt": "The with statement", "max_tokens": 8}
                request = {
                    "id": name, "model_name": model, "payload": payload, "priority": priority
                }  # fmt: skip
                body = orjson.dumps({**request, "estimated_gflops": gflops})
                await producer.send(
                    topic or self.names.pool("gpu"),
                    body if value is None else value,
                    key=name.encode(),
                    partition=number % PARTITIONS,
                    headers=[*headers, *encode_passage(passage)],
                )
        finally:
            await producer.stop()

    async def read(self, topic: str) -> list[Written]:
        """Return all committed records of a topic, from its beginning."""
        width = 1 if topic == self.names.nodes else PARTITIONS
        partitions = [TopicPartition(topic, number) for number in range(width)]
        return await read_all(self.connection, partitions)

    async def results(self) -> Counter[str]:
        """Return how often each request id stands in `results`."""
        records = await self.read(self.names.results)
        return Counter(orjson.loads(record.value or b"")["id"] for record in records)

    async def counts(self) -> Mapping[TopicPartition, FinishedCounts]:
        """Return the committed ledgers of all partitions of pool `gpu`."""
        partitions = [
            TopicPartition(topic, number)
            for topic in (self.names.pool("gpu"), self.names.express("gpu"))
            for number in range(PARTITIONS)
        ]
        async with OffsetReader(self.connection) as offsets:
            found = await offsets.committed(executor_group(self.settings.prefix, "gpu"), partitions)
        return {tp: decode_finished(said.metadata) for tp, said in found.items() if said}

    async def finished(self) -> tuple[int, int]:
        """Return how many records have been finished, and how many are begun and not."""
        counts = (await self.counts()).values()
        return sum(c.finished for c in counts), sum(len(c.unfinished) for c in counts)

    async def all_ended(self, count: int) -> bool:
        """Return whether so many pool records have been finished, and none is begun and not."""
        return await self.finished() == (count, 0)

    async def last_report(self, name: str = "n1") -> NodeReport | None:
        """Return what a node said last; None if nothing, or that it left."""
        records = [r for r in await self.read(self.names.nodes) if r.key == name.encode()]
        if not records or records[-1].value is None:
            return None
        return decode(NodeReport, records[-1].value)


@asynccontextmanager
async def running(node: Node) -> AsyncIterator[None]:
    """Run a node beside the test, and stop it in order."""
    work = asyncio.ensure_future(node.run())
    try:
        await until(lambda: work.done() or node.unready is None, within_s=in_time(20))
        if work.done():
            await work
        yield
        await node.stop(10)
        await work
    finally:
        work.cancel()
