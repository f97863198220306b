"""Membership of a consumer group: which partitions are ours right now.

Owns joining, heartbeats and leaving, by an aiokafka consumer that never fetches. It says what is
assigned and knows nothing of records, offsets or lanes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import errors as kafka_errors
from aiokafka.structs import TopicPartition

from runtime.kafka.assignor import paired_assignor
from runtime.kafka.connection import (
    NOT_ALLOWED,
    REQUEST_TIMEOUT_MS,
    TRANSPORT_ERRORS,
    Connection,
    unreachable,
)
from runtime.kafka.counts import HostCounts

log = logging.getLogger(__name__)

HEARTBEAT_S = 0.5
"""A rebalance waits until every member has heard of it by a heartbeat: so soon a node that joins
has its partitions."""
SESSION_S = 6.0
"""A member that died is noticed after this: the least a broker allows by default."""
REBALANCE_S = 6.0
"""How long a rebalance waits for members: nobody of us does any work before joining again."""

GROWTH_SEEN_MS = 2_000
"""Added partitions are noticed and assigned after this at most; one request a process."""

_WATCH_S = 0.5  # how often coordination errors are looked for; keeps the member active as well
_RETRY_S = 1.0
_LEAVE_S = 3.0  # leaving is a courtesy: without it the others wait for the session to end
_FINAL = (
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InvalidGroupIdError,
)


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """One member of one group.

    Attributes:
        assigned: the partitions that are ours, as of the last assignment.
        generation: the group's generation of that assignment; -1 before the first.
        settled: whether that assignment stands: false while joining or rebalancing.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        group: str,
        leader: str,
        followers: Sequence[str],
        counts: HostCounts,
        on_assigned: Callable[[], None],
        instance_id: str | None = None,
    ) -> None:
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.generation = -1
        self.settled = False
        self._connection = connection
        self._group = group
        self._topics = [leader, *followers]
        self._assignor = paired_assignor(leader, followers)
        self._counts = counts
        self._on_assigned = on_assigned
        self._instance_id = instance_id
        self._consumer: AIOKafkaConsumer | None = None
        self._broken: Exception | None = None

    async def run(self) -> None:
        """Be a member until cancelled, then leave the group.

        Joins anew after whatever aiokafka does not recover from by itself (its heartbeat task ends
        for good on an error it does not know). Raises only what no new try can change.
        """
        while True:
            consumer = self._consumer = self._new_consumer()
            try:
                await consumer.start()
                consumer.subscribe(self._topics, listener=self)
                await self._watch(consumer)
            except _FINAL:
                raise
            except NOT_ALLOWED as error:
                raise unreachable(self._connection, error) from error
            except TRANSPORT_ERRORS as error:
                log.warning("group %s: joining again after %r", self._group, error)
            finally:
                self.settled = False
                await _close(consumer)
            await asyncio.sleep(_RETRY_S)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:  # noqa: ARG002  its API
        """Hold: no one else can write for these partitions before fencing us, so work goes on."""
        self.settled = False

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note what is ours. Short and without awaiting: no heartbeat is sent meanwhile."""
        try:
            self._assign(frozenset(assigned))
        except Exception as error:  # noqa: BLE001  aiokafka would log and forget it
            self._broken = error

    def _assign(self, assigned: frozenset[TopicPartition]) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        consumer.pause(*assigned)
        for tp in assigned:
            consumer.seek(tp, 0)  # any position will do; without one it would ask for offsets
        # aiokafka has a hook for the generation and never calls it; without it the assignor cannot
        # tell a stale claim to a partition from a fresh one. No public way to learn the number.
        self.generation = consumer._coordinator.generation  # noqa: SLF001
        self._assignor.on_generation_assignment(self.generation)
        self.assigned = assigned
        self._counts.assignments += 1
        self.settled = True
        self._on_assigned()

    async def _watch(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            with contextlib.suppress(kafka_errors.NoOffsetForPartitionError):
                await consumer.getmany(timeout_ms=0)  # raises what happened to the membership
            if self._broken is not None:
                raise self._broken
            await asyncio.sleep(_WATCH_S)

    def _new_consumer(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            group_id=self._group,
            group_instance_id=self._instance_id,
            partition_assignment_strategy=(self._assignor,),
            session_timeout_ms=int(SESSION_S * 1000),
            heartbeat_interval_ms=int(HEARTBEAT_S * 1000),
            rebalance_timeout_ms=int(REBALANCE_S * 1000),
            request_timeout_ms=int(REBALANCE_S * 1000) + REQUEST_TIMEOUT_MS,  # a join waits for all
            metadata_max_age_ms=GROWTH_SEEN_MS,
            enable_auto_commit=False,
            auto_offset_reset="none",
            **self._connection,
        )


async def _close(consumer: AIOKafkaConsumer) -> None:
    closing = asyncio.ensure_future(consumer.stop())
    try:
        await asyncio.wait({closing}, timeout=_LEAVE_S)
    finally:
        if closing.done() and not closing.cancelled() and (error := closing.exception()):
            log.warning("the group was not left in order: %r", error)
        closing.cancel()
