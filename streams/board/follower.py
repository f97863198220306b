"""Follows what the routers decide, and how far `requests` reaches, for the board; keeps its time.

Reads `decisions` from its end at the start of the process: committed records, in no group. Must not
harm the worker that it serves: whatever fails is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outage import Outage
from runtime.kafka.scan import groupless_consumer
from runtime.kafka.started import started
from runtime.kafka.topics import partition_counts
from runtime.kafka.widths import Widths
from runtime.metrics import Metrics
from schemas.decisions import decode_outcomes
from schemas.errors import BrokerUnreachable, FormatError, OverspillError
from schemas.metrics import control as declared
from schemas.topics import DECISIONS, TopicNames
from streams.board.board import Board
from streams.board.since import look

log = logging.getLogger(__name__)

POLL_MS = 500
LOOK_EVERY_S = 1.0
AGAIN_S = 1.0
ANSWER_WITHIN_S = 3.0
"""A broker that needs longer to say where a partition ends is away, for who looks at the board."""


class Follower:
    """Feeds a board until cancelled."""

    def __init__(
        self, connection: Connection, names: TopicNames, board: Board, metrics: Metrics
    ) -> None:
        self._connection = connection
        self._names = names
        self._board = board
        self._metrics = metrics

    async def run(self) -> None:
        """Follow until cancelled; a broker that is away is waited for."""
        widths = await self._widths()
        await asyncio.gather(
            self._read_decisions(widths), self._read_ends(widths), widths.follow(), self._look()
        )

    async def _widths(self) -> Widths:
        topics = (self._names.decisions, self._names.requests)
        while True:
            try:
                return Widths(self._connection, await partition_counts(self._connection, topics))
            except (OverspillError, *TRANSPORT_ERRORS):
                look(self._board, _now_ms(), time.monotonic())
                await asyncio.sleep(AGAIN_S)

    async def _look(self) -> None:
        while True:
            look(self._board, _now_ms(), time.monotonic())
            await asyncio.sleep(LOOK_EVERY_S)

    async def _read_ends(self, widths: Widths) -> None:
        topic = self._names.requests
        reader = OffsetReader(self._connection, ANSWER_WITHIN_S)
        try:
            while True:
                places = [TopicPartition(topic, number) for number in range(widths[topic])]
                asked_s = time.monotonic()
                try:
                    ends = await reader.end(places)
                except (BrokerUnreachable, *TRANSPORT_ERRORS):
                    if self._board.kafka_away_s is None:
                        self._board.kafka_away_s = asked_s
                else:
                    self._board.ends = [ends[place] for place in places]
                    self._board.kafka_away_s = None
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await reader.close()

    async def _read_decisions(self, widths: Widths) -> None:
        outage = Outage(log, "following decisions")
        while True:
            try:
                await self._follow(widths, outage)
            except TRANSPORT_ERRORS as error:
                outage.failed(error)
                await asyncio.sleep(AGAIN_S)

    async def _follow(self, widths: Widths, outage: Outage) -> None:
        topic = self._names.decisions
        consumer = groupless_consumer(self._connection, POLL_MS)
        async with started(consumer):
            places: list[TopicPartition] = []
            while True:
                if len(places) < widths[topic]:
                    added = [TopicPartition(topic, n) for n in range(len(places), widths[topic])]
                    ends = await consumer.end_offsets(added) if not places else {}
                    at = {place: await consumer.position(place) for place in places}
                    places += added
                    consumer.assign(places)
                    # A partition that was added is read from its beginning: all in it is new.
                    for place in places:
                        consumer.seek(place, at.get(place, ends.get(place, 0)))
                    outage.over()
                await self._take(consumer)

    async def _take(self, consumer: AIOKafkaConsumer[bytes | None, bytes | None]) -> None:
        for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
            for record in records:
                try:
                    decided = decode_outcomes(record.value or b"")
                except FormatError as error:
                    self._metrics.counter(declared.UNREADABLE, DECISIONS).inc()
                    log.warning("decisions at offset %s ignored: %s", record.offset, error)
                    continue
                cost = self._board.decided(decided, time.monotonic())
                self._metrics.counter(declared.EXPECTED_COST, "routed").inc(cost.routed)
                self._metrics.counter(declared.EXPECTED_COST, "gpu-only").inc(cost.gpu_only)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
