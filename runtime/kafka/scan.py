"""Reading a stretch of one partition from here to there, committed records only.

For what is rebuilt, counted or judged from topics; the data plane does not read this way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import ConsumerRecord, TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.started import started
from runtime.kafka.topics import partition_counts

POLL_MS = 200
WAIT_MS = 500
"""Idle fetches cost the broker little at two a second; what comes meanwhile is sent at once."""


def groupless_consumer(connection: Connection, wait_ms: int = WAIT_MS) -> AIOKafkaConsumer:
    """Return a consumer of committed records, to be started; it is in no group and commits nothing.

    Args:
        connection: how to reach the brokers.
        wait_ms: how long the broker may hold a fetch for which there is nothing.
    """
    return AIOKafkaConsumer(
        **connection,
        group_id=None,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=wait_ms,
    )


async def scan(
    connection: Connection, partition: TopicPartition, start: int, end: int
) -> AsyncGenerator[ConsumerRecord[bytes | None, bytes | None], None]:
    """Yield the committed records with start <= offset < end; who stops before it closes this.

    `end` must be the end that a read_committed reader sees, else this waits for open transactions.
    """
    if start >= end:
        return
    consumer = groupless_consumer(connection)
    async with started(consumer):
        consumer.assign([partition])
        consumer.seek(partition, start)
        while True:
            for records in (await consumer.getmany(timeout_ms=POLL_MS)).values():
                for record in records:
                    if record.offset >= end:
                        return
                    yield record
            # Transaction markers leave no record: only the position tells that the end is reached.
            if await consumer.position(partition) >= end:
                return


async def scan_topic(
    connection: Connection, offsets: OffsetReader, topic: str
) -> AsyncGenerator[ConsumerRecord[bytes | None, bytes | None], None]:
    """Yield what a topic of one partition holds now, from its beginning.

    Raises:
        BrokerUnreachable: no answer in time.
        TopicMismatch: the topic does not exist; asking for its offsets would not tell.
    """
    await partition_counts(connection, (topic,))
    place = TopicPartition(topic, 0)
    begin, end = (await offsets.begin([place]))[place], (await offsets.end([place]))[place]
    async for record in scan(connection, place, begin, end):
        yield record
