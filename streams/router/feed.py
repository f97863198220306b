"""What routers hear: the control plane's snapshot and the model registry, followed as they change.

The only reader of `control` and `models` in the router. Reads committed records, so that a fenced
control worker's last words never count. A change of the registry is one transaction, and a fetch
may end in the middle of one: what was read counts once the reader stands at the last stable offset,
where every transaction is whole (docs/adr/0065).
"""

from __future__ import annotations

import asyncio
import logging
import time

from aiokafka.structs import ConsumerRecord, TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection
from runtime.kafka.outage import Outage
from runtime.kafka.scan import groupless_consumer
from runtime.kafka.started import started
from schemas.control import SNAPSHOT_KEY, Snapshot
from schemas.errors import FormatError
from schemas.message import decode
from schemas.topics import TopicNames
from streams.registry import RegistryFold
from streams.router.outlook import Outlook

log = logging.getLogger(__name__)

LOOK_BACK = 100
"""Offsets before the end of `control` to begin at: the last snapshot is among them, though each
takes a marker, and aborted ones lie between."""
POLL_MS = 500
AGAIN_AFTER_S = 1.0


class Feed:
    """Keeps an outlook informed until cancelled."""

    def __init__(self, connection: Connection, names: TopicNames, outlook: Outlook) -> None:
        self._connection = connection
        self._control = TopicPartition(names.control, 0)
        self._models = TopicPartition(names.models, 0)
        self._outlook = outlook
        self.first_snapshot = asyncio.Event()
        self.first_registry = asyncio.Event()

    async def run(self) -> None:
        """Follow both topics; a broker that is away is waited for."""
        outage = Outage(log, "following control and models")
        while True:
            try:
                await self._follow(outage)
            except TRANSPORT_ERRORS as error:
                outage.failed(error)
                await asyncio.sleep(AGAIN_AFTER_S)

    async def _follow(self, outage: Outage) -> None:
        consumer = groupless_consumer(self._connection, POLL_MS)
        async with started(consumer):
            consumer.assign([self._control, self._models])
            end = (await consumer.end_offsets([self._control]))[self._control]
            consumer.seek(self._control, max(0, end - LOOK_BACK))
            await consumer.seek_to_beginning(self._models)
            outage.over()
            fold, learnt_to = RegistryFold(), -1
            while True:
                for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                    if partition == self._control:
                        self._hear(records[-1])
                    else:
                        for record in records:
                            fold.take(record.offset, record.key, record.value)
                position = await consumer.position(self._models)
                if learnt_to != position == consumer.last_stable_offset(self._models):
                    self._outlook.learn(fold.registry())
                    self.first_registry.set()
                    learnt_to = position

    def _hear(self, record: ConsumerRecord[bytes | None, bytes | None]) -> None:
        if record.key != SNAPSHOT_KEY or record.value is None:
            return
        try:
            self._outlook.hear(decode(Snapshot, record.value), record.value, time.monotonic())
            self.first_snapshot.set()
        except FormatError as error:
            log.warning("snapshot at offset %s ignored: %s", record.offset, error)
