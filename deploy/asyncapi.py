"""The AsyncAPI 3 document: what callers may send, what they get, made from the declarations.

Pure. Must not know files or brokers. It covers what callers touch: requests, results, dead letters.
"""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.examples import LETTER_HEADERS, REQUESTS, RESULT, Example
from schemas.outcomes import DeadLetterCategory
from schemas.pools import DEFAULT_POOLS
from schemas.request import Request
from schemas.result import Result
from schemas.topics import (
    PRODUCTION_PARTITIONS,
    REPLICAS_TO_LOSE_ONE,
    Topic,
    TopicNames,
    catalogue,
)

SCHEMAS = "#/components/schemas/"
KAFKA_BINDING = "0.5.0"
TEXT = {"type": "string"}


def asyncapi(version: str) -> dict[str, Any]:
    """Return the document; it describes the release of that version."""
    names = TopicNames()
    topics = {t.name: t for t in catalogue(names, DEFAULT_POOLS, PRODUCTION_PARTITIONS)}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Overspill",
            "version": version,
            "description": (
                "Inference requests in, one terminal record each out: a result, or a dead letter. "
                "Read with isolation.level=read_committed. Names have the default prefix."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": _servers(),
        "channels": {
            "requests": _channel(topics[names.requests], "request"),
            "results": _channel(topics[names.results], "result"),
            "deadLetters": _channel(topics[names.dead_letter], "deadLetter"),
        },
        "operations": {
            "takeRequests": _operation("receive", "requests", "Produce here."),
            "sendResults": _operation("send", "results", "Consume here."),
            "sendDeadLetters": _operation("send", "deadLetters", "What was no request ends here."),
        },
        "components": {
            "messages": {
                "request": _request(),
                "result": _result(),
                "deadLetter": _dead_letter(),
            },
            "schemas": _schemas(),
            "securitySchemes": {
                "scram": {"type": "scramSha512"},
                "certificate": {"type": "X509"},
            },
        },
    }


def _servers() -> dict[str, Any]:
    return {
        "local": {
            "host": "127.0.0.1:9092",
            "protocol": "kafka",
            "description": "What `overspill up` starts; open to this machine.",
        },
        "production": {
            "host": "kafka.example:9093",
            "protocol": "kafka-secure",
            "description": "TLS, and one of these.",
            "security": [
                {"$ref": "#/components/securitySchemes/scram"},
                {"$ref": "#/components/securitySchemes/certificate"},
            ],
        },
    }


def _channel(topic: Topic, message: str) -> dict[str, Any]:
    config = topic.config(REPLICAS_TO_LOSE_ONE)
    return {
        "address": topic.name,
        "messages": {message: {"$ref": f"#/components/messages/{message}"}},
        "bindings": {
            "kafka": {
                "partitions": topic.partitions,
                "replicas": REPLICAS_TO_LOSE_ONE,
                "topicConfiguration": {
                    "cleanup.policy": [topic.cleanup],
                    "retention.ms": int(config["retention.ms"]),
                    "max.message.bytes": topic.max_message_bytes,
                },
                "bindingVersion": KAFKA_BINDING,
            }
        },
    }


def _operation(action: str, channel: str, summary: str) -> dict[str, Any]:
    return {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}


def _message(title: str, summary: str, key: str, **more: Any) -> dict[str, Any]:
    kafka = {"key": {**TEXT, "description": key}, "bindingVersion": KAFKA_BINDING}
    return {"title": title, "summary": summary, "bindings": {"kafka": kafka}, **more}


def _request() -> dict[str, Any]:
    return _message(
        "Request",
        "Fields that are not listed are ignored and kept. Headers come back with the result.",
        "The id, or the conversation's: repeats and conversations are known by it.",
        payload={"$ref": f"{SCHEMAS}Request"},
        headers=_headers({"traceparent": "W3C trace context: spans of ours continue it."}),
        examples=[_shown(example) for example in REQUESTS],
    )


def _result() -> dict[str, Any]:
    ours = {
        "traceparent": "As it came.",
        "overspill-request-id": "The id.",
        "overspill-origin": "topic/partition/offset of the request: count by it.",
        "overspill-attempt": "From 1.",
    }
    return _message(
        "Result",
        "Exactly one for each request that could be read and has no dead letter.",
        "The request's.",
        payload={"$ref": f"{SCHEMAS}Result"},
        headers=_headers(ours),
        examples=[_shown(RESULT)],
    )


def _dead_letter() -> dict[str, Any]:
    category = {**TEXT, "enum": [category.value for category in DeadLetterCategory]}
    headers = _headers(
        {"overspill-error-message": "One line.", "overspill-error-first-seen": "ms."}
    )
    headers["properties"]["overspill-error-category"] = category
    return _message(
        "Dead letter",
        "A record that was no request: its bytes as they came, the reason in headers.",
        "As it came.",
        contentType="application/octet-stream",
        payload={"description": "As it came; null if it could not be decoded."},
        headers=headers,
        examples=[{"name": "invalid-field", "headers": LETTER_HEADERS, "payload": {"id": "x"}}],
    )


def _headers(described: dict[str, str]) -> dict[str, Any]:
    properties = {name: {**TEXT, "description": text} for name, text in described.items()}
    return {"type": "object", "properties": properties, "additionalProperties": True}


def _shown(example: Example) -> dict[str, Any]:
    shown = {"name": example.name, "summary": example.summary, "payload": example.payload}
    return {**shown, "headers": example.headers} if example.headers else shown


def _schemas() -> dict[str, Any]:
    """Return the schemas of all messages with their parts beside them, as AsyncAPI wants it."""
    _, request = msgspec.json.schema_components([Request], ref_template=SCHEMAS + "{name}")
    result = Result.model_json_schema(ref_template=SCHEMAS + "{model}")
    parts = result.pop("$defs", {})
    return dict(sorted({**parts, **request, "Result": result}.items()))
