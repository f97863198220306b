"""Which partition a record goes to: Kafka's own rule for keys, the origin's hash without one.

The rule is that of every Kafka client, so that results of one key stand together and a consumer can
join them with its own records.
"""

from __future__ import annotations

import zlib

from aiokafka.partitioner import murmur2

from schemas.headers import Origin

_POSITIVE = 0x7FFFFFFF


def partition_of(key: bytes | None, origin: Origin, partitions: int) -> int:
    """Return the partition for a key out of so many."""
    if key is None:
        return zlib.crc32(origin.encode()) % partitions
    hashed: int = murmur2(key)
    return (hashed & _POSITIVE) % partitions
