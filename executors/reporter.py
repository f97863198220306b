"""Tells the control plane about this node: a report every 500 ms, and at once on a change.

Reports are absolute and may be lost: a node whose reports stop is down for the routers until the
next one. It knows how to send; what to say is the node's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiokafka import AIOKafkaProducer

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection, unreachable
from runtime.kafka.outage import Outage
from schemas.control import NodeReport
from schemas.message import encode

log = logging.getLogger(__name__)

REPORT_EVERY_S = 0.5
"""Six may be missed before a node is down (3 s)."""
SEND_WITHIN_S = 2.0
"""A report that is older says nothing worth knowing."""


class Reporter:
    """Sends a node's reports, and its tombstone when it leaves."""

    def __init__(
        self, connection: Connection, topic: str, node: str, report: Callable[[], NodeReport]
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._key = node.encode()
        self._report = report
        self._changed = asyncio.Event()
        self._left = False
        self._outage = Outage(log, "reporting to the control plane")
        self._producer: AIOKafkaProducer | None = None

    async def open(self) -> None:
        """Connect; raise BrokerUnreachable."""
        producer = AIOKafkaProducer(enable_idempotence=True, linger_ms=0, **self._connection)
        try:
            await producer.start()
        except TRANSPORT_ERRORS as error:
            await producer.stop()
            raise unreachable(self._connection, error) from error
        self._producer = producer

    def changed(self) -> None:
        """Report at once."""
        self._changed.set()

    async def run(self) -> None:
        """Report until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            due = loop.call_later(REPORT_EVERY_S, self._changed.set)
            await self.send()
            await self._changed.wait()
            due.cancel()

    async def send(self) -> None:
        """Send one report, none once the node has left; a broker that is away is logged once."""
        if not self._left:
            await self._send(encode(self._report()))

    async def leave(self) -> None:
        """Take the node off the books: a null value, which compaction removes too."""
        self._left = True  # a report written after it would put the node back for ever
        await self._send(None)

    async def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def _send(self, value: bytes | None) -> None:
        if self._producer is None:
            return
        try:
            await asyncio.wait_for(
                self._producer.send_and_wait(self._topic, value, key=self._key, partition=0),
                SEND_WITHIN_S,
            )
        except TRANSPORT_ERRORS as error:
            self._outage.failed(repr(error))
        else:
            self._outage.over()
