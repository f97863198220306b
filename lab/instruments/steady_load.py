"""A steady load on a running system, and every result as a consumer sees it come.

Sends requests at an even rate to all partitions of `requests` in turn and follows `results` as
anybody would: committed records only. It keeps when each request was sent and when its result was
seen, on this host's one clock. Knows nothing of what is done to the system meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.scan import groupless_consumer
from runtime.settings import Settings
from schemas.document import to_json
from schemas.errors import OverspillError
from schemas.headers import FINISHED, ORIGIN, Finished, Origin, split_headers
from schemas.message import decode
from schemas.result import Result

SEE_MS = 50
"""How long a fetch of results may be held; what comes meanwhile is sent at once."""
CALM_AGE_S = 2.0
"""No request is older than this without a result: the system keeps up."""
CALM_FOR_S = 3.0
"""For so long it must have kept up to be called calm: longer than a stall takes to show."""
CALM_WITHIN_S = 60.0
LOOK_S = 0.05


class Seen(NamedTuple):
    """One result, as it was seen; times are epoch seconds.

    Attributes:
        number: of the request, in the order sent.
        origin: its partition of `requests`.
        pool: its partition of the pool, and since when it stood there.
        node: what served it.
    """

    number: int
    sent_s: float
    decided_s: float
    seen_s: float
    origin: int
    pool: int
    node: str


class SteadyLoad:
    """What was sent, and what was seen of it.

    Attributes:
        seen: results, as they came.
        waiting: when each request was sent that has no result yet, by number, oldest first.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.waiting: dict[int, float] = {}

    async def calm(self) -> None:
        """Return when results have kept up with requests for a while.

        Raises:
            OverspillError: they do not within a minute.
        """
        give_up_s = time.monotonic() + CALM_WITHIN_S
        since_s = time.monotonic()
        while time.monotonic() - since_s < CALM_FOR_S:
            oldest_s = next(iter(self.waiting.values()), time.time())
            if time.time() - oldest_s > CALM_AGE_S:
                since_s = time.monotonic()
            if time.monotonic() > give_up_s:
                raise OverspillError(
                    f"{len(self.waiting)} requests wait and do not get fewer: lower --rate"
                )
            await asyncio.sleep(LOOK_S)

    def _see(self, value: bytes, headers: tuple[tuple[str, bytes | None], ...]) -> None:
        now_s = time.time()
        result = decode(Result, value)
        number = int(result.id[1:])
        ours = split_headers(headers)[1]
        if FINISHED not in ours or result.served_by is None:
            raise OverspillError(f"a request did not run: {result.status.value} {result.error}")
        self.seen.append(
            Seen(
                number,
                self.waiting.pop(number),
                result.decision.decided_at_ms / 1000,
                now_s,
                Origin.decode(ours[ORIGIN]).partition,
                Finished.decode(ours[FINISHED]).partition,
                result.served_by.node,
            )
        )

    async def _send(
        self, producer: AIOKafkaProducer, topic: str, partitions: int, rate: float
    ) -> None:
        began_s, number = time.monotonic(), 0
        while True:
            document = {"id": f"r{number}", "model_name": "m", "payload": {"prompt": "where?"}}
            self.waiting[number] = time.time()
            await producer.send(topic, to_json(document), partition=number % partitions)
            number += 1
            await asyncio.sleep(max(0.0, began_s + number / rate - time.monotonic()))

    async def _watch(self, consumer: AIOKafkaConsumer[bytes | None, bytes | None]) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=SEE_MS)).values():
                for record in records:
                    self._see(record.value or b"", tuple(record.headers))


@asynccontextmanager
async def steady_load(
    settings: Settings, connection: Connection, *, partitions: int, rate: float
) -> AsyncIterator[SteadyLoad]:
    """Send `rate` requests a second as long as this lasts, and see all their results.

    Raises:
        OverspillError: some have none a minute after the last was sent.
    """
    load = SteadyLoad()
    producer = AIOKafkaProducer(**connection, linger_ms=0)
    consumer = groupless_consumer(connection, SEE_MS)
    await producer.start()
    await consumer.start()
    try:
        places = [TopicPartition(settings.topics.results, n) for n in range(partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        watching = asyncio.ensure_future(load._watch(consumer))  # noqa: SLF001  its own module
        sending = asyncio.ensure_future(
            load._send(producer, settings.topics.requests, partitions, rate)  # noqa: SLF001  as above
        )
        try:
            yield load
            sending.cancel()
            await _all_seen(load, watching)
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.gather(sending, watching, return_exceptions=True)
    finally:
        await consumer.stop()
        await producer.stop()


async def _all_seen(load: SteadyLoad, watching: asyncio.Future[None]) -> None:
    give_up_s = time.monotonic() + CALM_WITHIN_S
    while load.waiting:
        if watching.done():
            watching.result()
        if time.monotonic() > give_up_s:
            raise OverspillError(f"{len(load.waiting)} requests have no result: a fault of ours")
        await asyncio.sleep(LOOK_S)
