"""Topics on the broker against their declaration: created in order, compared property by property.

It speaks the requests itself, because aiokafka's admin client hides per-topic errors and lets the
broker create what is asked about. Knows no role; what must exist is `schemas.topics.catalogue`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka import errors as kafka_errors
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
)
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection, connect, unreachable
from runtime.kafka.offsets import OffsetReader
from schemas.errors import TopicMismatch, UsageError
from schemas.metadata import METADATA_BYTES_MAX, router_metadata_bytes
from schemas.pools import Pool
from schemas.topics import Topic

CREATE_TIMEOUT_MS = 10_000
"""For the broker to create one topic on all its replicas."""
USABLE_WITHIN_S = 60.0
"""For every partition to get a leader once its topic is created: a broker at rest needs 2 s for the
350 of a production catalogue, one among busy neighbours over 10."""
POLL_S = 0.05
NO_LEADER = -1


class Placed(NamedTuple):
    """What the broker says of an existing topic.

    Attributes:
        leaders: how many of its partitions have a leader.
        replicas: of its first partition.
    """

    partitions: int
    leaders: int
    replicas: int


def refuse_oversize(pools: tuple[Pool, ...], partitions: int) -> None:
    """Raise UsageError if a router's counts for so many partitions cannot ride on an offset."""
    needed = router_metadata_bytes(pools, partitions)
    if needed <= METADATA_BYTES_MAX:
        return
    fits = partitions
    while fits > 1 and router_metadata_bytes(pools, fits) > METADATA_BYTES_MAX:
        fits -= 1
    raise UsageError(
        f"{partitions} partitions need {needed} bytes of offset metadata, Kafka keeps "
        f"{METADATA_BYTES_MAX}: use at most {fits} with these pools, or fewer pools"
    )


async def create_topics(
    connection: Connection, topics: Sequence[Topic], *, replicas: int = 1
) -> tuple[str, ...]:
    """Create the topics that do not exist, in this order, and return their names.

    Returns when every partition has a leader that answers. Existing topics are left as they are;
    `check_topics` compares them.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: the broker refuses a topic, or it has no leader in time.
    """
    client = await connect(connection)
    try:
        existing = await describe(client, [topic.name for topic in topics])
        created = []
        for topic in topics:
            if topic.name not in existing:
                await _create(client, topic, replicas)
                created.append(topic.name)
        await _wait_usable(
            client, {t.name: t.partitions if t.name in created else 1 for t in topics}
        )
    except TRANSPORT_ERRORS as error:
        raise unreachable(connection, error) from error
    finally:
        await client.close()
    await _until_answering(connection, [topic for topic in topics if topic.name in created])
    return tuple(created)


async def grow_topics(connection: Connection, topics: Sequence[Topic]) -> tuple[str, ...]:
    """Add the partitions that topics lack, in this order, and return the names of those grown.

    What runs meanwhile goes on: each partition finds its partners there when it appears. A topic
    with more partitions than declared is left as it is.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: a topic is missing, the broker refuses, or a partition has no leader in time.
    """
    client = await connect(connection)
    try:
        existing = await describe(client, [topic.name for topic in topics])
        if missing := [topic.name for topic in topics if topic.name not in existing]:
            raise _missing(missing)
        grown = [topic for topic in topics if existing[topic.name].partitions < topic.partitions]
        for topic in grown:
            await _grow(client, topic)
            await _wait_usable(client, {topic.name: topic.partitions})
    except TRANSPORT_ERRORS as error:
        raise unreachable(connection, error) from error
    finally:
        await client.close()
    await _until_answering(connection, grown)
    return tuple(topic.name for topic in grown)


async def check_topics(connection: Connection, topics: Sequence[Topic]) -> None:
    """Raise TopicMismatch, in one line, for the first topic that is not as declared."""
    client = await connect(connection)
    try:
        existing = await describe(client, [topic.name for topic in topics])
        missing = [topic.name for topic in topics if topic.name not in existing]
        if missing:
            raise _missing(missing)
        configs = await _configs(client, topics)
    except TRANSPORT_ERRORS as error:
        raise unreachable(connection, error) from error
    finally:
        await client.close()
    for topic in topics:
        _compare(topic, existing[topic.name], configs[topic.name])


async def describe_topics(connection: Connection, names: Iterable[str]) -> dict[str, Placed]:
    """Return partitions and replicas of each topic.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: a topic is missing.
    """
    asked = list(names)
    client = await connect(connection)
    try:
        found = await describe(client, asked)
    except TRANSPORT_ERRORS as error:
        raise unreachable(connection, error) from error
    finally:
        await client.close()
    if missing := [name for name in asked if name not in found]:
        raise _missing(missing)
    return found


async def partition_counts(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the number of partitions of each topic; raise as `describe_topics` does."""
    placed = await describe_topics(connection, names)
    return {name: topic.partitions for name, topic in placed.items()}


async def describe(client: AIOKafkaClient, names: Sequence[str]) -> dict[str, Placed]:
    """Return what a broker says of those of the topics that exist."""
    # Asking must not create: a topic made by the broker would have the wrong properties.
    request = MetadataRequest(list(names), allow_auto_topic_creation=False)
    answer = (await client.send(client.get_random_node(), request)).to_object()
    found = {}
    for topic in answer["topics"]:
        if topic["error_code"] == kafka_errors.UnknownTopicOrPartitionError.errno:
            continue
        if topic["error_code"] not in (0, kafka_errors.LeaderNotAvailableError.errno):
            raise kafka_errors.for_code(topic["error_code"])(topic["topic"])
        partitions = topic["partitions"]
        if not partitions:
            continue  # it is being created at this moment
        found[topic["topic"]] = Placed(
            len(partitions),
            sum(partition["leader"] != NO_LEADER for partition in partitions),
            len(partitions[0]["replicas"]),
        )
    return found


async def _create(client: AIOKafkaClient, topic: Topic, replicas: int) -> None:
    assigned_by_broker: list[tuple[int, list[int]]] = []
    config = list(topic.config(replicas).items())
    wanted = (topic.name, topic.partitions, replicas, assigned_by_broker, config)
    request = CreateTopicsRequest([wanted], CREATE_TIMEOUT_MS, validate_only=False)
    answer = await client.send(client.get_random_node(), request)
    for name, code, *message in answer.topic_errors:
        # Two processes may create at once: the other one's topic is as good as ours.
        if code not in (0, kafka_errors.TopicAlreadyExistsError.errno):
            why = next(iter(message), None) or kafka_errors.for_code(code).__name__
            raise TopicMismatch(f"the broker refuses topic {name}: {why}")


async def _grow(client: AIOKafkaClient, topic: Topic) -> None:
    placed_by_broker = None
    wanted = [(topic.name, (topic.partitions, placed_by_broker))]
    request = CreatePartitionsRequest(wanted, CREATE_TIMEOUT_MS, validate_only=False)
    answer = await client.send(client.get_random_node(), request)
    for name, code, message in answer.topic_errors:
        if code:
            why = message or kafka_errors.for_code(code).__name__
            raise TopicMismatch(f"the broker adds no partitions to topic {name}: {why}")


async def _wait_usable(client: AIOKafkaClient, widths: Mapping[str, int]) -> None:
    """Wait until each topic has so many partitions, and all it has have a leader."""
    deadline = time.monotonic() + USABLE_WITHIN_S
    while True:
        found = await describe(client, list(widths))
        waiting = [
            name
            for name, width in widths.items()
            if name not in found or found[name].leaders < max(found[name].partitions, width)
        ]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise TopicMismatch(
                f"topic {waiting[0]} has partitions without a leader after {USABLE_WITHIN_S:g} s",
                "see whether all brokers are up",
            )
        await asyncio.sleep(POLL_S)


async def _until_answering(connection: Connection, topics: Iterable[Topic]) -> None:
    """Wait until the leaders of new partitions have opened their logs: until then they refuse."""
    places = [TopicPartition(t.name, number) for t in topics for number in range(t.partitions)]
    async with OffsetReader(connection, USABLE_WITHIN_S) as offsets:
        await offsets.begin(places)


async def _configs(
    client: AIOKafkaClient, topics: Sequence[Topic]
) -> Mapping[str, Mapping[str, str]]:
    resources = [(ConfigResourceType.TOPIC, topic.name, None) for topic in topics]
    answer = await client.send(
        client.get_random_node(), DescribeConfigsRequest(resources, include_synonyms=False)
    )
    found: dict[str, Mapping[str, str]] = {}
    for code, _, _, name, entries in answer.resources:
        if code:
            raise kafka_errors.for_code(code)(name)
        found[name] = {entry[0]: entry[1] for entry in entries}
    return found


def _compare(topic: Topic, placed: Placed, config: Mapping[str, Any]) -> None:
    is_, should = placed.partitions, topic.partitions
    if is_ < should:
        raise TopicMismatch(
            f"topic {topic.name} has {is_} partitions, declared are {should}",
            "add partitions with `overspill topics grow`",
        )
    if is_ > should:
        raise TopicMismatch(
            f"topic {topic.name} has {is_} partitions, declared are {should}",
            f"state --partitions {is_}, or delete the topic and create it again",
        )
    for name, value in topic.config(placed.replicas).items():
        if config.get(name) != value:
            raise TopicMismatch(
                f"topic {topic.name} has {name}={config.get(name)}, declared is {value}",
                "set it with kafka-configs --alter --entity-type topics --entity-name "
                + topic.name,
            )


def _missing(names: Sequence[str]) -> TopicMismatch:
    are = f" and {len(names) - 1} more do" if len(names) > 1 else " does"
    return TopicMismatch(f"topic {names[0]}{are} not exist", "run `overspill topics create` first")
