"""Counts that ride in committed offsets: what makes lag exact.

A router's metadata says how many records, and how much work, it has routed to each pool partition,
an executor's how many it has finished and which are not. Both are bytes with a version in front,
written as text, since Kafka keeps metadata as text of at most 4,096 bytes; more would kill the
producer, so sizes are refused at start by arithmetic (`router_metadata_bytes`), never found under
load.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from schemas.errors import FormatError
from schemas.pools import Pool
from schemas.topics import pool_topics
from schemas.work import MFLOP_WRAP

METADATA_BYTES_MAX = 4096
"""Kafka's `offset.metadata.max.bytes` default."""
METADATA_VERSION = 2
"""1 has no work and is base85 without a mark in front: it is still read, with work 0."""
COUNT_BYTES = 5
"""A count goes up to 2^40: 10,000 a second for three years, and it wraps nowhere near that."""
WORK_BYTES = 8
TALLY_BYTES = 6
_PARTS = {COUNT_BYTES: "BI", WORK_BYTES: "II"}
"""The parts of a number, as `struct` names them."""
_BASE64_MARK = "."
"""No letter of base85. Base64 takes a fifteenth more room and a fiftieth of the time: the control
plane reads up to 64 of these ten times a second."""
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
        work: MFLOP routed, by pool and partition (both lanes together), modulo MFLOP_WRAP; a pool
            that was sent none may be left out.
    """

    routed: Mapping[str, tuple[int, ...]]
    consumed: int = 0
    dead: int = 0
    expired: int = 0
    unroutable: int = 0
    duplicate: int = 0
    work: Mapping[str, tuple[int, ...]] = MappingProxyType({})

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
        work: MFLOP finished, cumulative, modulo MFLOP_WRAP.
    """

    finished: int
    frontier: int
    unfinished: tuple[int, ...] = ()
    dead: int = 0
    expired: int = 0
    work: int = 0

    @property
    def committed(self) -> int:
        """Return the offset to commit: the lowest unfinished one, else the frontier."""
        return self.unfinished[0] if self.unfinished else self.frontier


def router_metadata_bytes(pools: tuple[Pool, ...], partitions: int) -> int:
    """Return how many bytes a router's metadata takes at most for these pools, all so wide."""
    widest = (0,) * partitions
    counts = RouterCounts(
        dict.fromkeys(pool_topics(pools), widest),
        work={pool.name: widest for pool in pools},
    )
    return len(encode_router(counts))


def encode_router(counts: RouterCounts) -> str:
    """Return the counts as offset metadata."""
    raw = bytearray((METADATA_VERSION, len(counts.routed)))
    for topic, partitions in counts.routed.items():
        _put_name(raw, topic, len(partitions))
        for routed in partitions:
            raw += routed.to_bytes(COUNT_BYTES, "big")
    raw.append(len(counts.work))
    for pool, work in counts.work.items():
        _put_name(raw, pool, len(work))
        raw += struct.pack(f">{len(work)}Q", *(mflop % MFLOP_WRAP for mflop in work))
    for tally in _tallies(counts):
        raw += tally.to_bytes(TALLY_BYTES, "big")
    return _pack(raw)


def decode_router(text: str) -> RouterCounts:
    """Return the counts in offset metadata; raise FormatError."""
    raw = _unpack(text)
    try:
        routed, at = _take_counts(raw, 1, COUNT_BYTES)
        work, at = _take_counts(raw, at, WORK_BYTES) if raw[0] > 1 else ({}, at)
    except (IndexError, UnicodeDecodeError, struct.error) as error:
        raise FormatError("a router's offset metadata is cut short") from error
    ends = range(at, at + 5 * TALLY_BYTES, TALLY_BYTES)
    tallies = [int.from_bytes(raw[i : i + TALLY_BYTES], "big") for i in ends]
    if len(raw) < at + 5 * TALLY_BYTES:
        raise FormatError("a router's offset metadata is cut short")
    consumed, dead, expired, unroutable, duplicate = tallies
    return RouterCounts(routed, consumed, dead, expired, unroutable, duplicate, work)


def encode_finished(counts: FinishedCounts) -> str:
    """Return the counts as offset metadata: offsets as varint distances below the frontier."""
    raw = bytearray((METADATA_VERSION,))
    work = counts.work % MFLOP_WRAP
    for number in (counts.finished, counts.dead, counts.expired, work, counts.frontier):
        _put_varint(raw, number)
    _put_varint(raw, len(counts.unfinished))
    previous = counts.unfinished[0] if counts.unfinished else counts.frontier
    _put_varint(raw, counts.frontier - previous)
    for offset in counts.unfinished[1:]:
        _put_varint(raw, offset - previous)
        previous = offset
    return _pack(raw)


def decode_finished(text: str) -> FinishedCounts:
    """Return the counts in offset metadata; raise FormatError."""
    raw = _unpack(text)
    try:
        finished, at = _take_varint(raw, 1)
        dead, at = _take_varint(raw, at)
        expired, at = _take_varint(raw, at)
        work, at = _take_varint(raw, at) if raw[0] > 1 else (0, at)
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
    return FinishedCounts(finished, frontier, tuple(unfinished), dead, expired, work)


def is_foreign(text: str) -> bool:
    """Return whether another program committed this: it has no counts, as tools of Kafka leave it.

    A version of ours that is too new is not foreign: whoever reads it must be upgraded.
    """
    try:
        return not _bytes_in(text)
    except ValueError:
        return True


def _pack(raw: bytearray) -> str:
    return _BASE64_MARK + base64.b64encode(raw).decode("ascii")


def _unpack(text: str) -> bytes:
    try:
        raw = _bytes_in(text)
    except ValueError as error:
        raise FormatError("offset metadata is not ours: another program committed it") from error
    if not raw or not 0 < raw[0] <= METADATA_VERSION:
        version = raw[0] if raw else "none"
        raise FormatError(
            f"offset metadata has version {version}, this reads up to {METADATA_VERSION}"
        )
    return raw


def _bytes_in(text: str) -> bytes:
    """Return the bytes that the text stands for; raise ValueError if it stands for none."""
    if text.startswith(_BASE64_MARK):
        return base64.b64decode(text[1:], validate=True)
    return base64.b85decode(text)


def _tallies(counts: RouterCounts) -> tuple[int, ...]:
    return counts.consumed, counts.dead, counts.expired, counts.unroutable, counts.duplicate


def _put_name(raw: bytearray, name: str, width: int) -> None:
    encoded = name.encode("ascii")
    raw.append(len(encoded))
    raw += encoded
    raw += width.to_bytes(2, "big")


def _take_counts(raw: bytes, at: int, size: int) -> tuple[dict[str, tuple[int, ...]], int]:
    """Return cumulative counts by name, `size` bytes each, and where they end."""
    counts = {}
    names, at = raw[at], at + 1
    for _ in range(names):
        name_end = at + 1 + raw[at]
        name = raw[at + 1 : name_end].decode("ascii")
        at = name_end + 2
        width = int.from_bytes(raw[name_end:at], "big")
        # Upper and lower part of each number: read at once, as this is read ten times a second.
        parts = struct.unpack_from(f">{_PARTS[size] * width}", raw, at)
        counts[name] = tuple(
            upper << 32 | lower for upper, lower in zip(parts[::2], parts[1::2], strict=True)
        )
        at += width * size
    return counts, at


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
