"""What a fresh broker needs before roles start: the topics, and the registry's records."""

from __future__ import annotations

from aiokafka import AIOKafkaProducer

from deploy.connection import connection_of
from deploy.local.fleet import registry
from runtime.kafka.topics import check_topics, create_topics, refuse_oversize
from runtime.settings import Settings
from schemas.message import encode
from schemas.topics import EMBEDDED_PARTITIONS, catalogue


async def provision(settings: Settings) -> None:
    """Create what is missing, compare what is there, and register the local models.

    Raises:
        TopicMismatch: a topic of an earlier run is not as declared.
    """
    connection = connection_of(settings)
    refuse_oversize(settings.pools, EMBEDDED_PARTITIONS)
    topics = catalogue(settings.topics, settings.pools, EMBEDDED_PARTITIONS)
    await create_topics(connection, topics)
    await check_topics(connection, topics)
    producer = AIOKafkaProducer(**connection, acks="all")
    await producer.start()
    try:
        for record in registry():
            await producer.send_and_wait(
                settings.topics.models, encode(record), key=record.name.encode()
            )
    finally:
        await producer.stop()
