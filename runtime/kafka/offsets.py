"""Read where groups stand and where partitions begin and end.

Owns the one request that tells a group's committed offsets with their metadata: router and executor
keep their counts there. It speaks the two requests itself, because aiokafka's admin client hides
the error of the first and has no second. It never writes an offset.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.structs import TopicPartition
from typing_extensions import Self

from runtime.kafka.connection import (
    NOT_ALLOWED,
    TRANSPORT_ERRORS,
    Connection,
    connect,
    unreachable,
)

T = TypeVar("T")

RETRY_S = 0.05
"""Pause before asking again: a new coordinator or leader is known within a few of these."""

_NO_OFFSET = -1
_EARLIEST, _LATEST = -2, -1
_ANY_REPLICA = -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1


class Committed(NamedTuple):
    """A committed offset with the metadata that rides on it (at most 4,096 bytes)."""

    offset: int
    metadata: str


class Bounds(NamedTuple):
    """The first offset a partition still has and the one past its last."""

    begin: int
    end: int


class OffsetReader:
    """Reads offsets; one connection, safe to use from several tasks.

    Every method raises `BrokerUnreachable` when there is no answer within `within_s` seconds, and
    `BrokerRefuses` at once.
    """

    def __init__(self, connection: Connection, within_s: float = 5.0) -> None:
        self._connection = connection
        self._within_s = within_s
        self._client: AIOKafkaClient | None = None
        self._coordinators: dict[str, int] = {}
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; reading connects by itself, so this only tells early that no broker is there."""
        await self._connected()

    async def close(self) -> None:
        """Close the connections; the reader may be used again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def committed(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed | None]:
        """Return what `group` committed for each partition, None where it never did.

        One request: cheap enough to be asked ten times a second.
        """
        asked = list(partitions)
        if not asked:
            return {}
        topics = [(topic, sorted(numbers)) for topic, numbers in _by_topic(asked).items()]

        async def attempt(client: AIOKafkaClient) -> dict[TopicPartition, Committed | None]:
            found = await self._commits(client, group, topics)
            if missing := [tp for tp in asked if tp not in found]:
                # Only -1 says "none". An absent partition taken for one would restart it at 0.
                raise kafka_errors.KafkaError(f"the coordinator did not answer for {missing}")
            return found

        return await self._retried(attempt)

    async def all_committed(self, group: str) -> dict[TopicPartition, Committed | None]:
        """Return everything that `group` has committed, whatever partitions we know of.

        What is asked for by name misses a partition that was added a moment ago.
        """
        return await self._retried(lambda client: self._commits(client, group, None))

    async def begin(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset that each partition still has."""
        return await self._list_offsets(list(partitions), _EARLIEST, _READ_UNCOMMITTED)

    async def end(
        self, partitions: Iterable[TopicPartition], *, stable: bool = True
    ) -> dict[TopicPartition, int]:
        """Return where each partition ends.

        Args:
            partitions: which.
            stable: the last stable offset, up to which a read_committed reader gets; otherwise the
                high watermark, which counts open transactions too.
        """
        isolation = _READ_COMMITTED if stable else _READ_UNCOMMITTED
        return await self._list_offsets(list(partitions), _LATEST, isolation)

    async def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return the first offset of each partition and its high watermark."""
        asked = list(partitions)
        begin = await self.begin(asked)
        end = await self.end(asked, stable=False)
        return {tp: Bounds(begin[tp], end[tp]) for tp in asked}

    async def _commits(
        self, client: AIOKafkaClient, group: str, topics: list[tuple[str, list[int]]] | None
    ) -> dict[TopicPartition, Committed | None]:
        answer = await self._ask_coordinator(client, group, OffsetFetchRequest(group, topics))
        _raise_for(answer.error_code)
        found: dict[TopicPartition, Committed | None] = {}
        for topic, entries in answer.topics:
            for partition, offset, metadata, error_code in entries:
                _raise_for(error_code)
                known = offset != _NO_OFFSET
                tp = TopicPartition(topic, partition)
                found[tp] = Committed(offset, metadata or "") if known else None
        return found

    async def _list_offsets(
        self, asked: list[TopicPartition], which: int, isolation: int
    ) -> dict[TopicPartition, int]:
        if not asked:
            return {}

        async def attempt(client: AIOKafkaClient) -> dict[TopicPartition, int]:
            by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
            for topic in {tp.topic for tp in asked}:
                await client.add_topic(topic)
            for tp in asked:
                leader = client.cluster.leader_for_partition(tp)
                if tp.topic in client.cluster.unauthorized_topics:
                    raise kafka_errors.TopicAuthorizationFailedError(tp.topic)
                if leader is None or leader == -1:
                    raise kafka_errors.LeaderNotAvailableError(str(tp))
                by_leader[leader].append(tp)
            found: dict[TopicPartition, int] = {}
            for leader, tps in by_leader.items():
                topics = [(t, [(p, which) for p in ps]) for t, ps in _by_topic(tps).items()]
                request = OffsetRequest(_ANY_REPLICA, isolation, topics)
                answer = await client.send(leader, request, group=ConnectionGroup.COORDINATION)
                for topic, entries in answer.topics:
                    for partition, error_code, _, offset in entries:
                        _raise_for(error_code)
                        found[TopicPartition(topic, partition)] = offset
            return found

        return await self._retried(attempt)

    async def _ask_coordinator(self, client: AIOKafkaClient, group: str, request: Any) -> Any:
        node = self._coordinators.get(group)
        if node is None:
            node = await client.coordinator_lookup(CoordinationType.GROUP, group)
            self._coordinators[group] = node
        try:
            answer = await client.send(node, request, group=ConnectionGroup.COORDINATION)
        except TRANSPORT_ERRORS:
            self._coordinators.pop(group, None)
            raise
        if answer.error_code:
            self._coordinators.pop(group, None)
        return answer

    async def _connected(self) -> AIOKafkaClient:
        async with self._connecting:
            if self._client is None:
                self._client = await connect(self._connection, self._within_s)
            return self._client

    async def _retried(self, attempt: Callable[[AIOKafkaClient], Awaitable[T]]) -> T:
        client = await self._connected()
        deadline = time.monotonic() + self._within_s
        while True:
            try:
                return await asyncio.wait_for(attempt(client), self._within_s)
            except NOT_ALLOWED as error:
                raise unreachable(self._connection, error) from error
            except TRANSPORT_ERRORS as error:
                if time.monotonic() > deadline:
                    raise unreachable(self._connection) from error
                client.force_metadata_update()
                await asyncio.sleep(RETRY_S)


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(tp.partition)
    return topics


def _raise_for(error_code: int) -> None:
    if error_code:
        raise kafka_errors.for_code(error_code)
