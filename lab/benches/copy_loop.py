"""The baseline of the router: a bare exactly-once copy loop, as fast as aiokafka lets one be.

Parses each record's JSON, adds two headers, and writes one extra record a transaction; no decision,
no validation, no counts. One transactional producer a partition, batches of its own. It must not
know what `runtime.kafka` does to the client library.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from lab.instruments.side import be_side
from lab.instruments.steady import Steady
from runtime.connection import connection_of
from runtime.settings import Settings

RECORDS_MAX = 1000
BATCH_BYTES = 256 * 1024
POLL_S = 0.01
"""Between two looks whether all is copied or a loop has failed; no figure depends on it."""


async def copy_all(
    connection: Mapping[str, Any], *, source: str, sink: str, extra: str, group: str, records: int
) -> Steady:
    """Copy `records` records; return how fast the last three quarters went."""
    consumer = AIOKafkaConsumer(
        source,
        **connection,
        group_id=group,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        max_partition_fetch_bytes=1024 * 1024,
    )
    await consumer.start()
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=50, max_records=1)
        for partition in consumer.assignment():
            consumer.seek(partition, 0)
    progress = Steady(records)
    loops = [
        asyncio.ensure_future(_copy(connection, consumer, partition, sink, extra, group, progress))
        for partition in consumer.assignment()
    ]
    while not progress.complete:
        await asyncio.wait(loops, timeout=POLL_S)  # they end by failing alone
        failed = [loop for loop in loops if loop.done()]
        await asyncio.gather(*failed)
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await consumer.stop()
    return progress


async def _copy(
    connection: Mapping[str, Any],
    consumer: AIOKafkaConsumer,
    partition: TopicPartition,
    sink: str,
    extra: str,
    group: str,
    progress: Steady,
) -> None:
    producer = AIOKafkaProducer(
        **connection,
        transactional_id=f"{group}-{partition.topic}-{partition.partition}",
        linger_ms=0,
        max_batch_size=BATCH_BYTES,
        retry_backoff_ms=10,
    )
    await producer.start()
    try:
        while True:
            found = await consumer.getmany(partition, timeout_ms=200, max_records=RECORDS_MAX)
            if not (records := found.get(partition)):
                continue
            await producer.begin_transaction()
            sends = []
            batch = producer.create_batch()
            for record in records:
                document = orjson.loads(record.value)
                headers = [
                    *record.headers,
                    ("copied-id", document["id"].encode()),
                    ("copied-from", b"%d" % record.offset),
                ]
                arguments = {"key": record.key, "value": record.value, "timestamp": None}
                if batch.append(headers=headers, **arguments) is None:
                    sends.append(
                        await producer.send_batch(batch, sink, partition=partition.partition)
                    )
                    batch = producer.create_batch()
                    batch.append(headers=headers, **arguments)
            sends.append(await producer.send_batch(batch, sink, partition=partition.partition))
            note = producer.create_batch()
            note.append(key=None, value=b"%d" % len(records), timestamp=None, headers=[])
            sends.append(await producer.send_batch(note, extra, partition=partition.partition))
            await asyncio.gather(*sends)
            await producer.send_offsets_to_transaction(
                {partition: OffsetAndMetadata(records[-1].offset + 1, "")}, group
            )
            await producer.commit_transaction()
            progress.has_done(progress.done + len(records), time.monotonic())
    finally:
        await producer.stop()


async def _copy_side(settings: Settings, records: int) -> Steady:
    prefix = settings.prefix
    return await copy_all(
        connection_of(settings),
        source=settings.topics.requests,
        sink=prefix + "copy",
        extra=prefix + "copy-notes",
        group=prefix + "copy",
        records=records,
    )


if __name__ == "__main__":
    be_side(_copy_side)
