"""The topic catalogue: every topic, its partitions, clean-up and limits, declared once.

Knows no broker; `overspill topics` and the embedded stack create and check what is declared here.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.pools import Pool

REQUESTS = "requests"
RETRY = "retry"
RESULTS = "results"
DEAD_LETTER = "dead-letter"
DECISIONS = "decisions"
NODES = "nodes"
MODELS = "models"
CONTROL = "control"
ORDERS = "orders"
LAG = "lag"

CONTROL_TABLES = ("lag", "threshold", "nodes", "orders")
"""What control keeps in Faust's tables; each has a changelog topic of its own."""

DEFAULT_PREFIX = "overspill."
EMBEDDED_PARTITIONS = 4
PRODUCTION_PARTITIONS = 32
DEAD_LETTER_PARTITIONS_MAX = 8
"""Dead letters are rare and read by people: few partitions are easier to follow."""

MIB = 1024 * 1024
REQUEST_BYTES_MAX = 1 * MIB
"""Key, value and headers of one record of `requests`."""
CALLER_HEADER_BYTES_MAX = 64 * 1024
RECORD_BYTES_MAX = 4 * MIB
"""Every other topic: four times a request, so nothing accepted can fail to be passed on."""

RETENTION_MS = 7 * 24 * 3600 * 1000
"""A week: requests expire after 24 h by default, so Kafka never deletes unfinished work."""
LAG_RETENTION_MS = 10 * 60 * 1000
"""Lag samples are absolute values: only the last ones matter, the rest is for looking back."""

REPLICAS_TO_LOSE_ONE = 3
"""From here on what is acknowledged stands on two brokers, and one may be away: with fewer replicas
either would stop every write."""

SHARED_BATCH_OVERHEAD_BYTES = 4096
"""What Kafka adds around one record in a batch, rounded up."""


class Topic(NamedTuple):
    """One topic as it must be on the broker."""

    name: str
    partitions: int
    cleanup: str
    max_message_bytes: int
    retention_ms: int

    def config(self, replicas: int) -> dict[str, str]:
        """Return the configuration of the topic with so many replicas, as Kafka spells it."""
        safe = replicas >= REPLICAS_TO_LOSE_ONE
        config = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": "CreateTime",
            "min.insync.replicas": "2" if safe else "1",
        }
        if self.cleanup == "delete":
            config["retention.ms"] = str(self.retention_ms)
        return config


class TopicNames:
    """The names of all topics under one prefix."""

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.prefix = prefix
        self.requests = prefix + REQUESTS
        self.retry = prefix + RETRY
        self.results = prefix + RESULTS
        self.dead_letter = prefix + DEAD_LETTER
        self.decisions = prefix + DECISIONS
        self.nodes = prefix + NODES
        self.models = prefix + MODELS
        self.control = prefix + CONTROL
        self.orders = prefix + ORDERS
        self.lag = prefix + LAG

    @property
    def control_plane(self) -> tuple[str, ...]:
        """Return the topics that a control worker reads and writes by itself."""
        return (self.nodes, self.lag, self.orders, self.control)

    def pool(self, pool: str) -> str:
        """Return the topic of a pool's normal and batch work."""
        return self.prefix + pool

    def express(self, pool: str) -> str:
        """Return the topic of a pool's realtime and strict-SLO work."""
        return f"{self.prefix}{pool}.express"

    def of_pool(self, pool: Pool) -> tuple[str, ...]:
        """Return the topics of a pool: its own, then its express topic if it has one."""
        return (
            (self.pool(pool.name), self.express(pool.name))
            if pool.express
            else (self.pool(pool.name),)
        )


def catalogue(
    names: TopicNames, pools: tuple[Pool, ...], partitions: int = EMBEDDED_PARTITIONS
) -> tuple[Topic, ...]:
    """Return every topic, in the order in which they are created and grown.

    `retry`, `decisions` and express topics come before `requests` and the pools' own: a partition
    must find its partner there when it appears.
    """
    largest = RECORD_BYTES_MAX + SHARED_BATCH_OVERHEAD_BYTES

    def deleted(
        name: str, count: int = partitions, size: int = largest, keep: int = RETENTION_MS
    ) -> Topic:
        return Topic(name, count, "delete", size, keep)

    def compacted(name: str) -> Topic:
        return Topic(name, 1, "compact", largest, RETENTION_MS)

    return (
        deleted(names.retry),
        deleted(names.decisions),
        *(deleted(names.express(pool.name)) for pool in pools if pool.express),
        deleted(names.results),
        deleted(names.dead_letter, min(partitions, DEAD_LETTER_PARTITIONS_MAX)),
        compacted(names.nodes),
        compacted(names.models),
        compacted(names.control),
        compacted(names.orders),
        deleted(names.lag, 1, keep=LAG_RETENTION_MS),
        deleted(names.requests, size=REQUEST_BYTES_MAX + SHARED_BATCH_OVERHEAD_BYTES),
        *(deleted(names.pool(pool.name)) for pool in pools),
    )


def changelogs(names: TopicNames) -> tuple[Topic, ...]:
    """Return the changelog topics of control's tables, under the names that Faust gives them."""
    largest = RECORD_BYTES_MAX + SHARED_BATCH_OVERHEAD_BYTES
    return tuple(
        Topic(f"{names.prefix}control-{table}-changelog", 1, "compact", largest, RETENTION_MS)
        for table in CONTROL_TABLES
    )


def router_group(prefix: str) -> str:
    """Return the consumer group of all routers."""
    return f"{prefix}router"


def executor_group(prefix: str, pool: str) -> str:
    """Return the consumer group of a pool's nodes."""
    return f"{prefix}executor.{pool}"


def transactional_ids(group: str, leader: str) -> str:
    """Return what a group's transactional ids begin with; the number of a partition follows."""
    return f"{group}-{leader}-"


def pool_topics(pools: tuple[Pool, ...]) -> tuple[str, ...]:
    """Return all pool topics without their prefix, as offset metadata names them."""
    bare = TopicNames("")
    return tuple(topic for pool in pools for topic in bare.of_pool(pool))
