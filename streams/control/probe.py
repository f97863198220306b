"""The probe: reads where all groups stand and makes a lag sample of it.

Owns what to ask for and in which order. `overspill status` reads with the same object, so that its
counts and the snapshot's are made alike.
"""

from __future__ import annotations

import asyncio
import time
from types import MappingProxyType

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import partition_counts
from schemas.control import LagSample
from schemas.pools import Pool
from schemas.topics import TopicNames, executor_group, router_group
from streams.control.lag import Arrivals, Commits, Reading, fold_lag

PARTITIONS_MAX_AGE_S = 5.0
"""Added partitions are asked for after this at most."""


class Probe:
    """Reads samples until closed."""

    def __init__(self, connection: Connection, names: TopicNames, pools: tuple[Pool, ...]) -> None:
        self._connection = connection
        self._names = names
        self._pools = pools
        self._offsets = OffsetReader(connection)
        self._partitions: dict[str, int] = {}
        self._counted_at_s = float("-inf")

    async def read(self, arrivals: Arrivals = MappingProxyType({})) -> tuple[LagSample, Reading]:
        """Return a sample and the commits it was made from.

        Args:
            arrivals: of the oldest unfinished records, as far as known.

        Raises:
            BrokerUnreachable: no answer in time.
            TopicMismatch: a topic does not exist.
            FormatError: offset metadata that is not ours.
        """
        if time.monotonic() - self._counted_at_s > PARTITIONS_MAX_AGE_S:
            await self._count_partitions()
        began_at_ms, began_s = time.time_ns() // 1_000_000, time.monotonic()
        answers = await asyncio.gather(*(self._finished(pool) for pool in self._pools))
        finished = {place: commit for answer in answers for place, commit in answer.items()}
        # Only now: what is routed and finished in between must not be missed here.
        routed = await self._routed()
        took_ms = (time.monotonic() - began_s) * 1000
        reading = Reading(finished, routed, began_at_ms, took_ms)
        return fold_lag(reading, self._names, self._pools, arrivals), reading

    async def close(self) -> None:
        """Close the connection."""
        await self._offsets.close()

    async def _finished(self, pool: Pool) -> Commits:
        group = executor_group(self._names.prefix, pool.name)
        return await self._committed(group, self._names.of_pool(pool))

    async def _routed(self) -> Commits:
        group = router_group(self._names.prefix)
        return await self._committed(group, (self._names.requests, self._names.retry))

    async def _committed(self, group: str, topics: tuple[str, ...]) -> Commits:
        # All of the group's, and not of the partitions we know: counts of one that was added since
        # would be missing on one side only.
        found = await self._offsets.all_committed(group)
        known = [TopicPartition(t, p) for t in topics for p in range(self._partitions[t])]
        return {
            **dict.fromkeys(known),
            **{tp: at for tp, at in found.items() if tp.topic in topics},
        }

    async def _count_partitions(self) -> None:
        pools = [topic for pool in self._pools for topic in self._names.of_pool(pool)]
        self._partitions = await partition_counts(
            self._connection, [self._names.requests, self._names.retry, *pools]
        )
        self._counted_at_s = time.monotonic()
