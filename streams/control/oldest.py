"""How long the oldest unfinished record of each pool partition has been there.

The lowest unfinished offset is what the pool's group has committed, so one record a partition is
read, and again only when the commit has moved. It works without any node: the record stands there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection, connect
from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import Fetcher
from runtime.kafka.outage import Outage
from runtime.kafka.records import Decoded, Received, Undecodable
from schemas.errors import OverspillError
from schemas.headers import ARRIVED_AT
from schemas.topics import TopicNames
from streams.control.lag import Arrivals, Place, Reading, count, lowest_unfinished

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
LOOK_WITHIN_S = 0.5
"""What is not found by then keeps its last known arrival, which is earlier, until the next look."""
BATCHES_BYTES = 64 * 1024
"""Of one partition in one answer: a whole batch of what routers write for a partition, as a rule. A
larger one comes alone."""

MS_DIGITS_MAX = 15
"""Of a moment in epoch ms, until the year 33,000; a header with more is not by a router."""


class OldestRecords:
    """Looks up when records arrived; one connection, kept until closed.

    Attributes:
        arrivals: by place, as of the last look.
        reading: the last one; whoever reads the counts puts it here for `run`.
    """

    def __init__(self, connection: Connection, names: TopicNames) -> None:
        self.arrivals: Arrivals = {}
        self.reading: Reading | None = None
        self._connection = connection
        self._names = names
        self._client: AIOKafkaClient | None = None
        self._found_at: dict[Place, int] = {}

    async def run(self) -> None:
        """Look once a second until cancelled, beside the probe: it is never held up by this."""
        outage = Outage(log, "reading the oldest unfinished records")
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                reading, self.reading = self.reading, None
                try:
                    await self.look(reading)
                except (OverspillError, KafkaError) as error:
                    outage.failed(error)
                else:
                    outage.over()
        finally:
            await self.close()

    async def look(self, reading: Reading | None) -> None:
        """Find when the lowest unfinished records of a reading arrived; without one forget all.

        Raises:
            BrokerUnreachable: no broker answers.
            FormatError: metadata that is not ours.
        """
        wanted = {} if reading is None else lowest_unfinished(count(reading, self._names))
        moved = {
            TopicPartition(*place): offset
            for place, offset in wanted.items()
            if self._found_at.get(place) != offset
        }
        found = await self._find(moved) if moved else {}
        known = {**self.arrivals, **found}
        self.arrivals = {place: known[place] for place in wanted if place in known}
        self._found_at = {
            place: wanted[place] if place in found else self._found_at.get(place, -1)
            for place in self.arrivals
        }

    async def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _find(self, wanted: Mapping[TopicPartition, int]) -> Arrivals:
        if self._client is None:
            self._client = await connect(self._connection)
        firsts = Firsts(wanted)
        fetcher = Fetcher(self._client, firsts, HostCounts(), partition_bytes=BATCHES_BYTES)
        tasks = [asyncio.ensure_future(run) for run in (fetcher.run(), firsts.complete.wait())]
        try:
            done, _ = await asyncio.wait(
                tasks, timeout=LOOK_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return firsts.arrivals


class Firsts:
    """A sink that takes the first record of each place at or after an offset.

    Attributes:
        arrivals: of the records taken.
        complete: set once no place is left to ask.
    """

    def __init__(self, wanted: Mapping[TopicPartition, int]) -> None:
        self.arrivals: dict[Place, int] = {}
        self.complete = asyncio.Event()
        self._wanted = dict(wanted)

    def wanted(self) -> Mapping[TopicPartition, int]:
        """Return the offset to ask each place for that has no record yet."""
        return self._wanted

    def deliver(self, tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        """Take what stands at an offset, if it is still the one wanted."""
        if self._wanted.get(tp) != asked:
            return
        if decoded.records:
            self.arrivals[tp] = arrived_at_ms(decoded.records[0])
            self._drop(tp)
        else:  # only markers, or an aborted transaction
            self._wanted[tp] = decoded.next_offset

    def out_of_range(self, tp: TopicPartition, asked: int) -> None:
        """Leave a place out: what was asked for is deleted or not there, and tells no age."""
        del asked
        self._drop(tp)

    def _drop(self, tp: TopicPartition) -> None:
        self._wanted.pop(tp, None)
        if not self._wanted:
            self.complete.set()


def arrived_at_ms(record: Received) -> int:
    """Return when a pool record's request arrived, epoch ms.

    That is what its first router stamped on it; without such a header, when it was written.
    """
    if isinstance(record, Undecodable):
        return record.timestamp
    stamped = dict(record.headers).get(ARRIVED_AT) or b""
    is_time = stamped.isdigit() and len(stamped) <= MS_DIGITS_MAX
    return int(stamped) if is_time else record.timestamp
