"""Fetch records from the partitions that want some, at offsets their owner keeps.

One request at a time to each broker, for whatever has room at that moment. There is no position,
no buffer and no pause state in here: an answer belongs to the offset it was asked for, and whoever
gets it decides whether that is still the one wanted. So a rebalance can neither lose nor repeat a
record.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Protocol

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS
from runtime.kafka.counts import HostCounts
from runtime.kafka.outage import Outage
from runtime.kafka.records import Decoded, decode

log = logging.getLogger(__name__)

MAX_WAIT_MS = 250
"""The broker holds an empty answer this long: what an idle process costs it is a few requests a
second. A new partition waits for it."""
MAX_WAIT_FOR_ROOM_MS = 50
"""The same, where a partition was left out for want of room: it may have room at any moment."""
MAX_BYTES = 8 * 1024 * 1024
"""Of one answer. Bounds memory together with the lanes' own room."""
MAX_PARTITION_BYTES = 1024 * 1024
"""Of one partition in one answer; a larger record still comes, alone (every topic takes 4 MiB)."""
POLL_S = 0.02
"""How soon room in a lane is noticed while no request is under way."""
RETRY_S = 0.1
"""Pause after a failed request."""
CORRUPT_TRIES = 3
"""A wrong checksum may come from the wire: fetch again before calling the batch undecodable."""

_READ_COMMITTED = 1
_MIN_BYTES = 1
_RACK_AWARE_VERSION = 11  # from here on one more field follows the aborted transactions


class Sink(Protocol):
    """Who wants records."""

    def wanted(self) -> Mapping[TopicPartition, int | None]:
        """Return the offset to fetch from for each partition, None for one without room now."""

    def deliver(self, tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        """Take what was fetched for `tp` at offset `asked`, or ignore it if that is outdated."""

    def out_of_range(self, tp: TopicPartition, asked: int) -> None:
        """Learn that the partition no longer has, or does not yet have, the offset asked for."""


class Fetcher:
    """Keeps fetching for a sink until cancelled.

    Args:
        client: connected; the caller closes it.
        sink: who wants records.
        counts: to which failed fetches are added.
        partition_bytes: of one partition in one answer; less for who wants but a few records.
    """

    def __init__(
        self,
        client: AIOKafkaClient,
        sink: Sink,
        counts: HostCounts,
        *,
        partition_bytes: int = MAX_PARTITION_BYTES,
    ) -> None:
        self._counts = counts
        self._partition_bytes = partition_bytes
        self._client = client
        self._sink = sink
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._failing_since: float | None = None
        self._corrupt: dict[TopicPartition, int] = {}
        self._outages: dict[int | TopicPartition, Outage] = {}

    def failing_s(self) -> float:
        """Return for how many seconds no request has succeeded; 0 while they do."""
        return 0.0 if self._failing_since is None else time.monotonic() - self._failing_since

    async def run(self) -> None:
        """Fetch until cancelled; a broker that is away is asked again until it is back."""
        try:
            while True:
                wanted = self._sink.wanted()
                max_wait_ms = MAX_WAIT_FOR_ROOM_MS if None in wanted.values() else MAX_WAIT_MS
                for node, offsets in self._by_leader(wanted).items():
                    fetch = self._fetch(node, offsets, max_wait_ms)
                    self._in_flight[node] = asyncio.create_task(fetch)
                if self._in_flight:
                    tasks = self._in_flight.values()
                    await asyncio.wait(tasks, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(POLL_S)
                for node in [node for node, task in self._in_flight.items() if task.done()]:
                    self._in_flight.pop(node).result()
        finally:
            for task in self._in_flight.values():
                task.cancel()
            await asyncio.gather(*self._in_flight.values(), return_exceptions=True)

    def _by_leader(
        self, wanted: Mapping[TopicPartition, int | None]
    ) -> dict[int, list[tuple[TopicPartition, int]]]:
        requests: dict[int, list[tuple[TopicPartition, int]]] = defaultdict(list)
        for tp, offset in wanted.items():
            if offset is None:
                continue
            leader = self._client.cluster.leader_for_partition(tp)
            if leader is None or leader == -1:
                self._client.add_topic(tp.topic)
                self._client.force_metadata_update()
                self._failed()
            elif leader not in self._in_flight:
                requests[leader].append((tp, offset))
        return requests

    async def _fetch(
        self, node: int, offsets: list[tuple[TopicPartition, int]], max_wait_ms: int
    ) -> None:
        random.shuffle(offsets)  # the broker fills its answer in this order: each gets its turn
        topics: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for tp, offset in offsets:
            topics[tp.topic].append((tp.partition, offset, self._partition_bytes))
        request = FetchRequest(
            max_wait_ms, _MIN_BYTES, MAX_BYTES, _READ_COMMITTED, list(topics.items())
        )
        try:
            response = await self._client.send(node, request)
        except TRANSPORT_ERRORS as error:
            self._fails(node, f"fetching from broker {node}", repr(error))
            await self._pause()
            return
        self._failing_since = None
        self._works(node)
        asked = dict(offsets)
        healthy = True
        for topic, partitions in response.topics:
            for partition, error_code, high_watermark, *rest in partitions:
                tp = TopicPartition(topic, partition)
                if error_code:
                    healthy = self._refused(tp, asked[tp], error_code) and healthy
                else:
                    self._works(tp)
                    aborted = rest[2] if response.API_VERSION >= _RACK_AWARE_VERSION else rest[-2]
                    self._decode(tp, asked[tp], rest[-1], high_watermark, aborted)
        if not healthy:
            await self._pause()

    def _decode(
        self, tp: TopicPartition, asked: int, data: bytes, high_watermark: int, aborted: Any
    ) -> None:
        tries = self._corrupt.get(tp, 0)
        decoded = decode(
            data or b"", asked, high_watermark, aborted or (), skip_corrupt=tries >= CORRUPT_TRIES
        )
        if decoded.corrupt and decoded.next_offset == asked:
            self._corrupt[tp] = tries + 1
            log.warning("wrong checksum in %s at offset %s, try %s", tp, asked, tries + 1)
        else:
            self._corrupt.pop(tp, None)
        if decoded.next_offset != asked:
            self._sink.deliver(tp, asked, decoded)

    def _refused(self, tp: TopicPartition, asked: int, error_code: int) -> bool:
        """Return whether to go on without a pause after an error of one partition."""
        error = kafka_errors.for_code(error_code)
        if error is kafka_errors.OffsetOutOfRangeError:
            self._sink.out_of_range(tp, asked)
            return True
        self._fails(tp, f"fetching {tp.topic}-{tp.partition}", error.__name__)
        return False

    def _fails(self, what: int | TopicPartition, activity: str, why: str) -> None:
        self._outages.setdefault(what, Outage(log, activity)).failed(why)

    def _works(self, what: int | TopicPartition) -> None:
        if what in self._outages:
            self._outages.pop(what).over()

    def _failed(self) -> None:
        self._counts.fetch_errors += 1
        if self._failing_since is None:
            self._failing_since = time.monotonic()

    async def _pause(self) -> None:
        self._failed()
        self._client.force_metadata_update()
        await asyncio.sleep(RETRY_S)
