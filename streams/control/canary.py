"""The canary: a small request to each compute type once a minute, and whether its end came back.

It goes the way of every request: `requests`, a router, a pool, a node, `results`. So it tells what
no count can: that a record which goes in comes out. Runs where the worker speaks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection
from runtime.kafka.outage import Outage
from runtime.kafka.partitioning import partition_of
from runtime.kafka.scan import groupless_consumer
from runtime.kafka.started import started
from runtime.kafka.topics import partition_counts
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas import canary as mark
from schemas.document import to_json
from schemas.errors import FormatError, OverspillError
from schemas.headers import Origin
from schemas.message import decode
from schemas.metrics import control as declared
from schemas.pools import ComputeType
from schemas.result import Result
from streams.board.board import Board
from streams.control.desk import Desk

log = logging.getLogger(__name__)

LOST_AFTER_S = 75.0
"""An end comes at the latest when the canary expires; the rest is for the way back."""
POLL_MS = 200
NOWHERE = Origin("", 0, 0)
"""A canary has a key: its origin chooses nothing."""


def canary(kind: ComputeType, model: str, now_ms: int) -> tuple[bytes, bytes]:
    """Return key and value of a canary that only this compute type may run."""
    name = f"{mark.ID}{kind.value}:{now_ms}"
    document = {
        "id": name,
        "model_name": model,
        "payload": {"prompt": "ok", "max_tokens": 1},
        "tenant": mark.TENANT,
        "expires_after_ms": mark.EXPIRES_AFTER_MS,
        "requires": {"compute_types": [kind.value]},
    }
    return name.encode(), to_json(document)


class Canary:
    """Sends canaries while its desk is on duty, and counts those that come back."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        desk: Desk,
        board: Board,
        metrics: Metrics,
    ) -> None:
        self._names = settings.topics
        self._model = settings.canary.model or ""
        self._every_s = settings.canary.every_s
        self._connection = connection
        self._desk = desk
        self._board = board
        self._metrics = metrics

    async def run(self) -> None:
        """Send a round again and again until cancelled; a broker that is away is waited for."""
        outage = Outage(log, "sending canaries")
        while True:
            await self._desk.on_duty.wait()
            begun_s = time.monotonic()
            kinds = self._alive(begun_s)
            if kinds:
                try:
                    await self._round(kinds)
                except (OverspillError, *TRANSPORT_ERRORS) as error:
                    outage.failed(error)
                else:
                    outage.over()
            rest_s = self._every_s - (time.monotonic() - begun_s) if kinds else 1.0
            await asyncio.sleep(max(0.0, rest_s))

    def _alive(self, now_s: float) -> list[ComputeType]:
        """Return the compute types with a live node: without one a canary would only wait."""
        seen = self._board.seen(now_s)
        if seen is None:
            return []
        alive = {pool.compute_type for pool in self._board.pools if seen.pools[pool.name].nodes}
        return [kind for kind in ComputeType if kind in alive]

    async def _round(self, kinds: Iterable[ComputeType]) -> None:
        topic = self._names.results
        width = (await partition_counts(self._connection, (topic,)))[topic]
        now_ms = time.time_ns() // 1_000_000
        sent = {kind: canary(kind, self._model, now_ms) for kind in kinds}
        places = {
            TopicPartition(topic, partition_of(key, NOWHERE, width)) for key, _ in sent.values()
        }
        consumer = groupless_consumer(self._connection, POLL_MS)
        async with started(consumer):
            consumer.assign(list(places))
            for place, end in (await consumer.end_offsets(list(places))).items():
                consumer.seek(place, end)
            begun_s = time.monotonic()
            await self._send(sent)
            await self._await(consumer, {key: kind for kind, (key, _) in sent.items()}, begun_s)

    async def _send(self, sent: dict[ComputeType, tuple[bytes, bytes]]) -> None:
        producer = AIOKafkaProducer(enable_idempotence=True, **self._connection)
        async with started(producer):
            for kind, (key, value) in sent.items():
                await producer.send_and_wait(self._names.requests, value, key=key)
                self._metrics.counter(declared.CANARY_PRODUCED, kind.value).inc()

    async def _await(
        self, consumer: Any, waiting: dict[bytes, ComputeType], begun_s: float
    ) -> None:
        for kind in waiting.values():
            self._metrics.counter(declared.CANARY_LOST, kind.value).inc(0)
        while waiting and time.monotonic() - begun_s < LOST_AFTER_S:
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    if record.key in waiting:
                        kind = waiting.pop(record.key)
                        self._ended(kind, record.value, time.monotonic() - begun_s)
        for kind in waiting.values():
            log.warning("the canary of %s was lost", kind.value)
            self._metrics.counter(declared.CANARY_LOST, kind.value).inc()
            self._board.tally.counts.canaries_lost[kind.value] += 1

    def _ended(self, kind: ComputeType, value: bytes | None, took_s: float) -> None:
        try:
            status = decode(Result, value or b"").status.value
        except FormatError:
            status = "error"
        self._metrics.counter(declared.CANARY_RECEIVED, kind.value, status).inc()
        self._metrics.histogram(declared.CANARY_SECONDS, kind.value).observe(took_s)
