"""One fenced producer for each owned partition: output and offsets in one Kafka transaction.

Owns the transactional id, the deadlines and the verdict on how a commit ended. A producer that met
any doubt is thrown away: its sequence numbers and late requests die with its epoch. Knows nothing
of what is written, nor of who owns what.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import aiokafka.producer.sender
from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced
from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from runtime.crash import CrashPoint, reached
from runtime.kafka import produce_request
from runtime.kafka.connection import (
    METADATA_MAX_AGE_MS,
    REQUEST_TIMEOUT_MS,
    TRANSPORT_ERRORS,
    Connection,
    unreachable,
)
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import BATCH_BYTES, Outputs
from schemas.errors import Fenced, OutcomeUnknown
from schemas.topics import transactional_ids

# A transaction right after another meets CONCURRENT_TRANSACTIONS until its markers are written,
# which takes 1-2 ms; aiokafka would sleep for 20. Private: its version is pinned, a test looks.
aiokafka.producer.sender.BACKOFF_OVERRIDE = 0.002
ProduceRequest_v7.encode = produce_request.encoded

TRANSACTION_TIMEOUT_MS = 10_000
"""After a crash nobody takes over, readers of what it touched stall this long and not longer."""
RETRY_BACKOFF_MS = 10
"""Between retries of aiokafka: a local coordinator answers within a few milliseconds."""
OPEN_DEADLINE_S = 8.0
"""To fence: the predecessor's transaction must be ended first."""
COMMIT_DEADLINE_S = 8.0
"""aiokafka retries a commit for ever; we stop waiting before the broker ends the transaction."""
SLOW_COMMIT_S = 1.0
"""A commit this slow was retried somewhere on its way, and a late copy of its last request could
still end the next transaction of the same epoch. A new producer has a new epoch."""
SENDER_ENDS_S = 1.0
"""For aiokafka's sender to end in order once its connections are closed: milliseconds."""


def transactional_id(group: str, leader_topic: str, partition: int) -> str:
    """Return the id that every owner of this partition uses, so that each fences the one before."""
    return f"{transactional_ids(group, leader_topic)}{partition}"


class FencedProducer:
    """Writes transactions under one transactional id until another producer opens the same id."""

    def __init__(self, connection: Connection, transactional_id: str, group: str = "") -> None:
        """Prepare; `group` is whose offsets are committed, none where nothing is read."""
        self._connection = connection
        self._transactional_id = transactional_id
        self._group = group
        self._producer: AIOKafkaProducer | None = None

    async def open(self) -> None:
        """Fence the predecessor; its open transaction is aborted, one being committed is finished.

        Raises:
            BrokerUnreachable: no coordinator answered within 8 s; try again.
        """
        producer = AIOKafkaProducer(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            linger_ms=0,
            max_batch_size=BATCH_BYTES,
            **self._connection,
        )
        try:
            await asyncio.wait_for(producer.start(), OPEN_DEADLINE_S)
        except TRANSPORT_ERRORS as error:
            await _discard(producer)
            raise unreachable(self._connection, error) from error
        except BaseException:
            await _discard(producer)
            raise
        reached(CrashPoint.TRANSACTION_AFTER_FENCING)
        self._producer = producer

    async def commit(self, outputs: Outputs, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Write `outputs` and commit `offsets` in one transaction; either may be empty.

        Returning means committed. A caller that is cancelled meanwhile still waits for the end, so
        that nobody reads offsets while they change.

        Raises:
            Fenced: another producer has opened this id; nothing of this transaction is visible.
            OutcomeUnknown: it may or may not be committed. Open a new producer, then read offsets.
        """
        producer, self._producer = self._producer, None
        if producer is None:
            raise OutcomeUnknown(f"the producer {self._transactional_id} is closed: open a new one")
        started = time.monotonic()
        work = asyncio.ensure_future(_transaction(producer, outputs, offsets, self._group))
        cancelled = await _uncancelled(work, COMMIT_DEADLINE_S)
        slow = time.monotonic() - started > SLOW_COMMIT_S
        failure = work.exception() if work.done() else TimeoutError(f"{COMMIT_DEADLINE_S} s passed")
        if failure is None and not slow:
            self._producer = producer
        else:
            work.cancel()
            await asyncio.wait({work})
            _read(work)
            await _discard(producer)
        if cancelled:
            raise asyncio.CancelledError
        if isinstance(failure, (ProducerFenced, InvalidProducerEpoch)):
            raise Fenced(
                f"another process has taken over {self._transactional_id}: wait for the assignment"
            ) from failure
        if failure is not None or slow:
            why = repr(failure) if failure else f"it took more than {SLOW_COMMIT_S} s"
            raise OutcomeUnknown(
                f"transaction of {self._transactional_id} without a sure end ({why}): "
                "the committed offset decides"
            ) from failure

    async def close(self) -> None:
        """Close the connections; an open transaction cannot exist between commits."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _discard(producer)


async def _transaction(
    producer: AIOKafkaProducer,
    outputs: Outputs,
    offsets: Mapping[TopicPartition, Committed],
    group: str,
) -> None:
    await producer.begin_transaction()
    # A fatal error after another one puts a second waiter in its place, which `_discard` reads.
    producer._txn_manager.wait_for_transaction_end().add_done_callback(_read)  # noqa: SLF001
    await _write(producer, outputs)
    reached(CrashPoint.TRANSACTION_ACK_BEFORE_OFFSETS)
    # Not side by side with the batches: the broker then answers NOT_ENOUGH_REPLICAS.
    if offsets:
        await producer.send_offsets_to_transaction(
            {tp: OffsetAndMetadata(c.offset, c.metadata) for tp, c in offsets.items()}, group
        )
    reached(CrashPoint.TRANSACTION_OFFSETS_BEFORE_COMMIT)
    reached(CrashPoint.TRANSACTION_IN_COMMIT)
    await producer.commit_transaction()
    reached(CrashPoint.TRANSACTION_AFTER_COMMIT)


async def _write(producer: AIOKafkaProducer, outputs: Outputs) -> None:
    """Send all batches and wait until the broker has them."""
    made = list(outputs.batches())
    partitions: dict[str, set[int]] = defaultdict(set)
    for tp, _ in made:
        partitions[tp.topic].add(tp.partition)
    for topic, written in partitions.items():
        while not written <= await producer.partitions_for(topic):
            # One was added a moment ago; the deadline of the commit ends this if it never was.
            await producer.client.force_metadata_update()
            await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
    delivered = []
    # A broker's first batches share a request, then its second ones. One task hands all of them
    # over: a task for each partition took a fifth of a transaction's own instructions. So second
    # batches, which few transactions have, wait until every broker has taken its first ones.
    for wave in zip_longest(*(batches for _, batches in made)):
        for (tp, _), batch in zip(made, wave, strict=True):
            if batch is not None:
                delivery = await producer.send_batch(batch, tp.topic, partition=tp.partition)
                delivery.add_done_callback(_read)
                delivered.append(delivery)
    if delivered:
        reached(CrashPoint.TRANSACTION_BEFORE_ACK)
        await asyncio.wait(delivered)
    for delivery in delivered:
        # commit_transaction() would commit the offsets without the batch that was refused.
        delivery.result()


async def _uncancelled(work: asyncio.Future[None], within_s: float) -> bool:
    """Wait for `work` without ever cancelling it; return whether the caller was cancelled."""
    cancelled = False
    deadline = time.monotonic() + within_s
    while not work.done() and (left := deadline - time.monotonic()) > 0:
        try:
            await asyncio.wait({work}, timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


async def _discard(producer: AIOKafkaProducer) -> None:
    """Close a producer at once; stop() alone would wait for batches that may never be delivered."""
    sender = producer._sender.sender_task  # noqa: SLF001  no public way to give up on deliveries
    accumulator = producer._message_accumulator  # noqa: SLF001  as above
    for *_, unsent in producer._txn_manager._pending_txn_offsets:  # noqa: SLF001  as above
        unsent.add_done_callback(_read)
    if sender is not None:
        sender.cancel()  # it goes on until its requests have ended, which closing the client does
        await producer.client.close()
        await asyncio.wait({sender}, timeout=SENDER_ENDS_S)
        sender.cancel()  # a second time: whatever it waits for then, it ends
        await asyncio.wait({sender})
    left = [batch for batches in accumulator._batches.values() for batch in batches]  # noqa: SLF001
    # Where it looks for a batch that was tried before, and stumbles if there is none.
    accumulator._pending_batches.update(left)  # noqa: SLF001  as above
    accumulator.fail_all(KafkaError("given up"))
    with contextlib.suppress(*TRANSPORT_ERRORS):
        await producer.stop()
    # The caller knows how it ended; whatever nobody has read, asyncio would log as a crash.
    _read(producer._txn_manager.wait_for_transaction_end())  # noqa: SLF001  as above
    for batch in left:
        _read(batch._drain_waiter)  # noqa: SLF001  as above


def _read(ended: asyncio.Future[Any] | None) -> None:
    """Mark what a future ended with as seen."""
    if ended is not None and ended.done() and not ended.cancelled():
        ended.exception()
