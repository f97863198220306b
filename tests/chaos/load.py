"""The load of a run: a producer that remembers what was acknowledged, and a reader beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.structs import RecordMetadata

from deploy.client.reader import Reader
from deploy.client.terminal import read_terminal
from schemas.headers import Origin
from schemas.topics import REQUEST_BYTES_MAX
from tests.chaos.history import HistoryFile
from tests.chaos.traffic import shot
from tests.kafka.system import System

TURN_S = 0.02
"""How often records are handed to the producer."""
ANSWERS_WITHIN_S = 60.0
PRODUCER_BYTES_MAX = 2 * REQUEST_BYTES_MAX
"""More than a request may take: what is too large is for the router to say."""


class Load:
    """Sends at a rate and watches the ends.

    Attributes:
        sent: records so far.
        stall_s: the longest that a partition of `results` stood still while records were sent.
    """

    def __init__(self, system: System, history: HistoryFile, seed: int, per_s: float) -> None:
        self.sent = 0
        self.stall_s = 0.0
        self._system = system
        self._history = history
        self._seed = seed
        self._per_s = per_s
        self._stopped = asyncio.Event()
        self._last: dict[int, float] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send and watch beside the body; all answers are there afterwards, or never come."""
        watching = asyncio.ensure_future(self._watch())
        sending = asyncio.ensure_future(self._send())
        try:
            yield
        finally:
            self._stopped.set()
            await sending
            await watching

    async def _send(self) -> None:
        producer = AIOKafkaProducer(
            enable_idempotence=True,
            linger_ms=5,
            max_request_size=PRODUCER_BYTES_MAX,
            **self._system.connection,
        )
        await producer.start()
        answers: set[asyncio.Future[None]] = set()
        began_s = time.monotonic()
        try:
            while not self._stopped.is_set():
                while self.sent < (time.monotonic() - began_s) * self._per_s:
                    answer = asyncio.ensure_future(await self._send_one(producer, self.sent))
                    answers.add(answer)
                    answer.add_done_callback(answers.discard)
                    self.sent += 1
                await asyncio.sleep(TURN_S)
            if answers:
                await asyncio.wait(answers, timeout=ANSWERS_WITHIN_S)
        finally:
            # Without a broker, stopping waits for answers for ever.
            await asyncio.wait([asyncio.ensure_future(producer.stop())], timeout=ANSWERS_WITHIN_S)

    async def _send_one(self, producer: AIOKafkaProducer, number: int) -> Awaitable[None]:
        """Hand over a record, behind those before it; return the wait for its answer."""
        _, key, value, headers = shot(self._seed, number, int(time.time() * 1000))
        self._history.note("send", number=number)
        requests = self._system.names.requests
        while True:
            try:
                answer = await producer.send(requests, value, key=key, headers=headers)
            except KafkaTimeoutError:  # those before it wait for a broker that is away
                continue
            return self._answer(number, answer)

    async def _answer(self, number: int, answer: asyncio.Future[RecordMetadata]) -> None:
        try:
            at = await answer
        except KafkaError as error:
            self._history.note("unanswered", number=number, error=repr(error))
        else:
            origin = Origin(at.topic, at.partition, at.offset)
            self._history.at("acknowledged", origin, number=number)

    async def _watch(self) -> None:
        names = self._system.names
        topics = (names.results, names.dead_letter)
        async with Reader(self._system.connection, topics, from_end=False) as reader:
            while not self._stopped.is_set():
                records = await reader.some()
                now_s = time.monotonic()
                for record in records:
                    self._history.at("seen", read_terminal(record, names).origin)
                moved = {record.partition for record in records if record.topic == names.results}
                for partition, since_s in self._last.items():
                    self.stall_s = max(self.stall_s, now_s - since_s)
                    if partition in moved:
                        self._last[partition] = now_s
                self._last.update(dict.fromkeys(moved - self._last.keys(), now_s))
