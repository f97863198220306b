"""What the cluster says of itself: how many partitions its topics have."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.kafka.connection import Connection, connect
from schemas.errors import TopicMismatch


async def partition_counts(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic.

    Raises:
        TopicMismatch: a topic is missing.
        BrokerUnreachable: no broker answers.
    """
    client = await connect(connection)
    try:
        wanted = list(topics)
        await client.set_topics(wanted)
        found = {topic: client.cluster.partitions_for_topic(topic) for topic in wanted}
    finally:
        await client.close()
    missing = sorted(topic for topic, partitions in found.items() if not partitions)
    if missing:
        raise TopicMismatch(
            f"topic {missing[0]} does not exist: run `overspill topics create`, same settings"
        )
    return {topic: len(partitions or ()) for topic, partitions in found.items()}
