"""What this client may do with topics, by the broker's own word, and which requests it knows.

Asking changes nothing. It speaks a version of the metadata request that aiokafka does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import ApiVersionRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

OPERATIONS = {3: "Read", 4: "Write", 8: "Describe"}
"""Bits of the broker's answer, and Kafka's words for them."""


class _MetadataResponse(Response):  # type: ignore[misc]  # no types are published
    API_KEY = 3
    API_VERSION = 8
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            Array(
                ("node_id", Int32),
                ("host", String("utf-8")),
                ("port", Int32),
                ("rack", String("utf-8")),
            ),
        ),
        ("cluster_id", String("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("topic", String("utf-8")),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("isr", Array(Int32)),
                        ("offline_replicas", Array(Int32)),
                    ),
                ),
                ("authorized_operations", Int32),
            ),
        ),
        ("cluster_authorized_operations", Int32),
    )


class _MetadataRequest(RequestStruct):  # type: ignore[misc]  # no types are published
    API_KEY = 3
    API_VERSION = 8
    RESPONSE_TYPE = _MetadataResponse
    SCHEMA = Schema(
        ("topics", Array(String("utf-8"))),
        ("allow_auto_topic_creation", Boolean),
        ("include_cluster_authorized_operations", Boolean),
        ("include_topic_authorized_operations", Boolean),
    )


class _Metadata(Request[_MetadataRequest]):  # type: ignore[misc]  # no types are published
    API_KEY = 3

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics

    def build(self, request_struct_class: type[_MetadataRequest]) -> _MetadataRequest:
        return request_struct_class(list(self._topics), False, False, True)


async def known_requests(client: AIOKafkaClient) -> Mapping[int, int]:
    """Return the newest version that a broker knows of each request, by the request's number."""
    answer = await client.send(client.get_random_node(), ApiVersionRequest())
    return {key: newest for key, _, newest in answer.api_versions}


async def allowed(client: AIOKafkaClient, topics: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return what this client may do with each topic that exists, of OPERATIONS."""
    answer: Any = await client.send(client.get_random_node(), _Metadata(topics))
    found = {}
    for topic in answer.to_object()["topics"]:
        code = topic["error_code"]
        if code == kafka_errors.UnknownTopicOrPartitionError.errno:
            continue
        bits = 0 if code else topic["authorized_operations"]
        found[topic["topic"]] = frozenset(
            name for bit, name in OPERATIONS.items() if bits & (1 << bit)
        )
    return found
