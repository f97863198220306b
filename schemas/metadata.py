"""Counts that ride in committed offsets: what makes lag exact.

A router's metadata says how many records it has routed to each pool partition, an executor's how
many it has finished and which are not. Both are bytes with a version in front, written as base85
text, since Kafka keeps metadata as text of at most 4,096 bytes; more would kill the producer, so
sizes are refused at start by arithmetic (`router_metadata_bytes`), never found under load.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schemas.errors import FormatError

METADATA_BYTES_MAX = 4096
"""Kafka's `offset.metadata.max.bytes` default."""
METADATA_VERSION = 1
COUNT_BYTES = 5
"""A count goes up to 2^40: 10,000 a second for three years, and it wraps nowhere near that."""
TALLY_BYTES = 6
_MORE = 0x80
"""LEB128: seven bits a byte, the eighth says that more follow."""

IN_FLIGHT_MAX = 1000
"""Records of one partition that may be unfinished below the read frontier."""
FRONTIER_SPAN_MAX = 16_000
"""Offsets between the first unfinished record and the read frontier: bounds the deltas' size."""


class RouterCounts(NamedTuple):
    """What one input partition has become, cumulative.

    Attributes:
        routed: records by pool topic (name without prefix) and partition. Topics go by name, not by
            position, so that adding a pool moves no count.
        consumed: all records taken; equals routed + dead + expired + unroutable + duplicate.
    """

    routed: Mapping[str, tuple[int, ...]]
    consumed: int = 0
    dead: int = 0
    expired: int = 0
    unroutable: int = 0
    duplicate: int = 0

    @property
    def balanced(self) -> bool:
        """Return whether every record taken has become exactly one thing."""
        routed = sum(map(sum, self.routed.values()))
        rest = self.dead + self.expired + self.unroutable + self.duplicate
        return self.consumed == routed + rest


class FinishedCounts(NamedTuple):
    """What a node has finished of one topic partition.

    Attributes:
        finished: records that have left the partition, cumulative.
        frontier: offset of the next record to read; all below it were read.
        unfinished: offsets below the frontier still to finish, ascending.
        dead: of the finished, those that became dead letters.
        expired: of the finished, those whose time had passed.
    """

    finished: int
    frontier: int
    unfinished: tuple[int, ...] = ()
    dead: int = 0
    expired: int = 0

    @property
    def committed(self) -> int:
        """Return the offset to commit: the lowest unfinished one, else the frontier."""
        return self.unfinished[0] if self.unfinished else self.frontier


def router_metadata_bytes(topics: Iterable[str], partitions: int) -> int:
    """Return how many bytes a router's metadata takes for these pool topics, all so wide."""
    return len(encode_router(RouterCounts(dict.fromkeys(topics, (0,) * partitions))))


def encode_router(counts: RouterCounts) -> str:
    """Return the counts as offset metadata."""
    raw = bytearray((METADATA_VERSION, len(counts.routed)))
    for topic, partitions in counts.routed.items():
        name = topic.encode("ascii")
        raw.append(len(name))
        raw += name
        raw += len(partitions).to_bytes(2, "big")
        for routed in partitions:
            raw += routed.to_bytes(COUNT_BYTES, "big")
    for tally in counts[1:]:
        raw += tally.to_bytes(TALLY_BYTES, "big")
    return base64.b85encode(bytes(raw)).decode("ascii")


def decode_router(text: str) -> RouterCounts:
    """Return the counts in offset metadata; raise FormatError."""
    raw = _unpack(text)
    at = 2
    routed = {}
    try:
        for _ in range(raw[1]):
            name_end = at + 1 + raw[at]
            name = raw[at + 1 : name_end].decode("ascii")
            at = name_end + 2
            end = at + int.from_bytes(raw[name_end:at], "big") * COUNT_BYTES
            routed[name] = tuple(
                int.from_bytes(raw[i : i + COUNT_BYTES], "big") for i in range(at, end, COUNT_BYTES)
            )
            at = end
    except (IndexError, UnicodeDecodeError) as error:
        raise FormatError("a router's offset metadata is cut short") from error
    tallies = [
        int.from_bytes(raw[i : i + TALLY_BYTES], "big")
        for i in range(at, at + 5 * TALLY_BYTES, TALLY_BYTES)
    ]
    if len(raw) < at + 5 * TALLY_BYTES:
        raise FormatError("a router's offset metadata is cut short")
    return RouterCounts(routed, *tallies)


def encode_finished(counts: FinishedCounts) -> str:
    """Return the counts as offset metadata: offsets as varint distances below the frontier."""
    raw = bytearray((METADATA_VERSION,))
    for number in (counts.finished, counts.dead, counts.expired, counts.frontier):
        _put_varint(raw, number)
    _put_varint(raw, len(counts.unfinished))
    previous = counts.unfinished[0] if counts.unfinished else counts.frontier
    _put_varint(raw, counts.frontier - previous)
    for offset in counts.unfinished[1:]:
        _put_varint(raw, offset - previous)
        previous = offset
    return base64.b85encode(bytes(raw)).decode("ascii")


def decode_finished(text: str) -> FinishedCounts:
    """Return the counts in offset metadata; raise FormatError."""
    raw = _unpack(text)
    try:
        finished, at = _take_varint(raw, 1)
        dead, at = _take_varint(raw, at)
        expired, at = _take_varint(raw, at)
        frontier, at = _take_varint(raw, at)
        length, at = _take_varint(raw, at)
        distance, at = _take_varint(raw, at)
        unfinished = []
        offset = frontier - distance
        for index in range(length):
            if index:
                delta, at = _take_varint(raw, at)
                offset += delta
            unfinished.append(offset)
    except IndexError as error:
        raise FormatError("a node's offset metadata is cut short") from error
    return FinishedCounts(finished, frontier, tuple(unfinished), dead, expired)


def is_foreign(text: str) -> bool:
    """Return whether another program committed this: it has no counts, as tools of Kafka leave it.

    A version of ours that is too new is not foreign: whoever reads it must be upgraded.
    """
    try:
        base64.b85decode(text)
    except ValueError:
        return True
    return not text


def _unpack(text: str) -> bytes:
    try:
        raw = base64.b85decode(text)
    except ValueError as error:
        raise FormatError("offset metadata is not base85: another program committed it") from error
    if not raw or raw[0] != METADATA_VERSION:
        version = raw[0] if raw else "none"
        raise FormatError(f"offset metadata has version {version}, this reads {METADATA_VERSION}")
    return raw


def _put_varint(raw: bytearray, number: int) -> None:
    while number >= _MORE:
        raw.append(number & 0x7F | _MORE)
        number >>= 7
    raw.append(number)


def _take_varint(raw: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = raw[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < _MORE:
            return number, at
        shift += 7
