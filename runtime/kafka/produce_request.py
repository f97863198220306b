"""The bytes of a produce request, put together once.

aiokafka puts a request together level by level, so that what a transaction writes is copied six
times. A router sends a megabyte forty times a second. Private: its version is pinned, and a test
compares the bytes.
"""

from __future__ import annotations

from aiokafka.protocol.produce import ProduceRequest_v7
from aiokafka.protocol.types import Int16, Int32, String

_text = String("utf-8")


def encoded(request: ProduceRequest_v7) -> bytes:
    """Return what the request's own `encode` would."""
    parts = [
        _text.encode(request.transactional_id),
        Int16.encode(request.required_acks),
        Int32.encode(request.timeout),
        Int32.encode(len(request.topics)),
    ]
    for topic, partitions in request.topics:
        parts += _text.encode(topic), Int32.encode(len(partitions))
        for partition, records in partitions:
            parts += Int32.encode(partition), Int32.encode(len(records)), records
    return b"".join(parts)
