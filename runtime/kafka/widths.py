"""How many partitions topics have: read at start, then followed, for topics grow while we run.

A mapping by full topic name whose numbers only grow. What to do about growth is its owner's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from aiokafka.client import AIOKafkaClient

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection, connect
from runtime.kafka.outage import Outage
from runtime.kafka.topics import describe
from schemas.errors import BrokerUnreachable

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""One small request a process: who adds partitions sees them used within seconds."""


class Widths(Mapping[str, int]):
    """Partitions of some topics now.

    Attributes:
        on_growth: called after topics have got partitions.
    """

    def __init__(self, connection: Connection, widths: Mapping[str, int]) -> None:
        """Begin with what was read at start; `follow` or `look` again later."""
        self.on_growth: Callable[[], None] = lambda: None
        self._connection = connection
        self._widths = dict(widths)
        self._client: AIOKafkaClient | None = None
        self._looking = asyncio.Lock()

    def __getitem__(self, topic: str) -> int:
        return self._widths[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._widths)

    def __len__(self) -> int:
        return len(self._widths)

    async def follow(self) -> None:
        """Look again and again until cancelled; a broker that is away is waited for."""
        outage = Outage(log, "looking for added partitions")
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                try:
                    await self.look()
                except (BrokerUnreachable, *TRANSPORT_ERRORS) as error:
                    outage.failed(error)
                    await self._disconnect()
                else:
                    outage.over()
        finally:
            await self._disconnect()

    async def look(self) -> None:
        """Take note of what has grown; raises what a client raises while a broker is away."""
        async with self._looking:
            if self._client is None:
                self._client = await connect(self._connection)
            found = await describe(self._client, list(self._widths))
        grown = {
            topic: placed.partitions
            for topic, placed in found.items()
            # A broker that lags behind says less than we know, and a partition without a leader
            # takes no record yet.
            if placed.partitions > self._widths[topic] and placed.leaders == placed.partitions
        }
        if grown:
            added = ", ".join(f"{topic} has {width}" for topic, width in grown.items())
            log.info("partitions were added: %s", added)
            self._widths.update(grown)
            self.on_growth()

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
