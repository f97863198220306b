"""The publisher: speaks for the control plane in terms, each fenced against the one before.

Owns the transactional id of `control`. A term ends with any doubt (fenced, an unknown outcome, a
broker that is away) and the next one begins from what was really committed.
"""

from __future__ import annotations

import asyncio
import logging
import time

from aiokafka.errors import KafkaError

from runtime.crash import CrashPoint, reached
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outage import Outage
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer
from schemas.control import SNAPSHOT_KEY, Snapshot
from schemas.errors import Fenced, OverspillError
from schemas.topics import TopicNames
from streams.control.desk import SILENT_AFTER_S, Desk
from streams.control.gauges import Gauges
from streams.control.record import last_snapshot, standing_orders
from streams.control.snapshot import NodeBytes, encode_snapshot, news
from streams.control.term import take_over

log = logging.getLogger(__name__)

REPEAT_S = 0.5
"""A snapshot without news comes this often, so that routers see that control lives."""
SHOW_S = 1.0
"""Metrics are scraped more rarely, and showing 500 nodes takes as long as publishing them."""
FENCED_S = 2.0
"""Two heartbeats: by then a worker that was paused has learnt that its partitions are gone, and
does not fence the one that has them now."""
AGAIN_S = 0.1
"""After any other end of a term: a slow broker must not make routers stale for long."""


class Publisher:
    """Publishes snapshots while its desk is on duty."""

    def __init__(
        self, connection: Connection, names: TopicNames, desk: Desk, gauges: Gauges
    ) -> None:
        self._connection = connection
        self._names = names
        self._desk = desk
        self._gauges = gauges
        self._encoded: NodeBytes = {}
        self._outage = Outage(log, "publishing snapshots")

    async def run(self) -> None:
        """Serve one term after another until cancelled."""
        while True:
            await self._desk.on_duty.wait()
            pause_s = AGAIN_S
            try:
                await self._term()
            except Fenced as error:
                log.warning("another control worker speaks, this one stands by: %s", error)
                pause_s = FENCED_S
            except (OverspillError, KafkaError) as error:
                self._outage.failed(error)
            finally:
                self._desk.end_term()
                self._gauges.silent()
            await asyncio.sleep(pause_s)

    async def _term(self) -> None:
        identity = f"{self._names.prefix}control"
        producer = FencedProducer(self._connection, identity)
        await producer.open()
        try:
            async with OffsetReader(self._connection) as offsets:
                last = await last_snapshot(self._connection, offsets, self._names)
                book = await standing_orders(self._connection, offsets, self._names)
            term = take_over(last, book, time.monotonic())
            if self._desk.on_duty.is_set():
                log.info(
                    "speaking for control: generation %s, threshold %s",
                    term.row.generation,
                    term.row.threshold,
                )
                self._desk.begin_term(term)
                await self._speak(producer)
        finally:
            await producer.close()

    async def _speak(self, producer: FencedProducer) -> None:
        number, said, said_at_s, shown_at_s = 0, None, float("-inf"), float("-inf")
        while self._desk.on_duty.is_set():
            # Only a sample of our own makes a snapshot: without one, what would be said is old.
            try:
                await asyncio.wait_for(self._desk.folded.wait(), SILENT_AFTER_S)
            except asyncio.TimeoutError:
                self._gauges.silent()
                continue
            self._desk.folded.clear()
            now_s = time.monotonic()
            snapshot = self._desk.snapshot(number + 1, time.time_ns() // 1_000_000, now_s)
            if snapshot is None:
                continue
            if now_s - shown_at_s >= SHOW_S:
                self._gauges.show(snapshot)
                shown_at_s = now_s
            if news(said, snapshot) or now_s - said_at_s >= REPEAT_S:
                await self._publish(producer, snapshot)
                number, said, said_at_s = number + 1, snapshot, now_s

    async def _publish(self, producer: FencedProducer, snapshot: Snapshot) -> None:
        outputs = Outputs()
        outputs.add(self._names.control, 0, SNAPSHOT_KEY, encode_snapshot(snapshot, self._encoded))
        # A broker that does not answer holds this up for 8 s: what is exported would be old then.
        late = asyncio.get_running_loop().call_later(SILENT_AFTER_S, self._gauges.silent)
        reached(CrashPoint.CONTROL_BEFORE_PUBLISH)
        try:
            await producer.commit(outputs, {})  # its input is no stream: the next sample says all
        finally:
            late.cancel()
        self._outage.over()
        self._desk.spoke(time.monotonic())
        self._gauges.published()
