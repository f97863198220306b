"""Read fetched bytes record by record, so that one bad record never hides its neighbours.

Owns the walk over record batches: control and aborted ones are left out, what cannot be decoded
becomes an `Undecodable` at its offset. Pure: bytes in, records out; knows nothing of fetching.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import decode_varint

from runtime.kafka.codecs import Undecompressable, decompress
from schemas.topics import RECORD_BYTES_MAX


class Record(Protocol):
    """A record as it was produced; the partition stands beside it."""

    @property
    def offset(self) -> int:
        """Where it stands in its partition."""

    @property
    def timestamp(self) -> int:
        """Epoch milliseconds."""

    @property
    def key(self) -> bytes | None:
        """The key's bytes."""

    @property
    def value(self) -> bytes | None:
        """The value's bytes."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Header keys and values in order; keys may repeat."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is there and cannot be read: `why` in one line, timestamp in epoch ms."""

    offset: int
    timestamp: int
    why: str
    # Nothing of it is known, so that who weighs or tells records need not ask which kind one is.
    key: ClassVar[None] = None
    value: ClassVar[None] = None
    headers: ClassVar[tuple[()]] = ()


Received: TypeAlias = "Record | Undecodable"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one fetch of one partition gave.

    Attributes:
        records: in order, each offset at or past the one asked for.
        next_offset: where to fetch next; beyond the last record where markers follow.
        corrupt: the batch at `next_offset` fails its checksum; fetch it again.
    """

    records: list[Received]
    next_offset: int
    corrupt: bool = False


ENOUGH_RECORDS = 10_000
"""Decode no further batch beyond this many records ..."""
ENOUGH_BYTES = 16 * 1024 * 1024
"""... or this many uncompressed bytes: what is left is fetched again."""
MAX_BATCH_RECORDS = 100_000
"""More in one batch is a bomb of tiny records (clients stop at about 10,000)."""
MAX_RECORD_BYTES = RECORD_BYTES_MAX
"""Of a record once decompressed: no topic of ours takes more, so not even a dead letter could keep
it, and whoever tried would try for ever."""

_HEADER = struct.Struct(">qiibIhiqqqhii")  # Kafka's record batch, format 2
_LOG_OVERHEAD = 12  # base offset and length, before what the length counts
_ATTRIBUTES_AT = 21
_CODEC_MASK, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_MAGIC = 2
_COUNT_BYTES = 4
_HEADER_LENGTHS_BYTES = 10  # two varints of five bytes at most


@dataclass(frozen=True, slots=True)
class _Batch:
    raw: bytes
    base: int
    magic: int
    attributes: int
    last: int
    timestamp: int
    producer: int
    count: int


def decode(
    data: bytes,
    wanted: int,
    high_watermark: int,
    aborted: Iterable[tuple[int, int]] = (),
    *,
    skip_corrupt: bool = False,
) -> Decoded:
    """Return the committed records of a fetch response.

    Args:
        data: the record set of one partition; a batch cut off at its end is left for the next
            fetch.
        wanted: the offset asked for; a batch may begin before it.
        high_watermark: no record stands at or past it, whatever a broken batch claims.
        aborted: (producer id, first offset) of the aborted transactions, from the response.
        skip_corrupt: make a batch with a wrong checksum undecodable instead of stopping there.
    """
    records: list[Received] = []
    position = wanted
    size = 0
    aborts = _Aborts(aborted)
    for batch in _batches(data):
        if len(records) >= ENOUGH_RECORDS or size >= ENOUGH_BYTES:
            break
        if batch.last < position:
            continue
        if batch.magic != _MAGIC or not DefaultRecordBatch(batch.raw).validate_crc():
            if not skip_corrupt:
                return Decoded(records, position, corrupt=True)
            end = max(position + 1, min(batch.last + 1, high_watermark))
            broken = range(position, end)[:ENOUGH_RECORDS]
            return Decoded(
                [*records, *_undecodable(broken, batch, "wrong checksum")], broken[-1] + 1
            )
        if not aborts.hide(batch):
            found, used = _records(batch, position)
            records += found
            size += used
            if len(found) == ENOUGH_RECORDS and isinstance(found[-1], Undecodable):
                position = found[-1].offset + 1  # maybe only a part of a huge broken batch
                break
        position = batch.last + 1
    return Decoded(records, position)


class _Aborts:
    """Which batches belong to aborted transactions, or are markers; asked batch by batch."""

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, key=lambda entry: entry[1])
        self._producers: set[int] = set()

    def hide(self, batch: _Batch) -> bool:
        """Return whether readers must not see this batch."""
        while self._to_come and self._to_come[0][1] <= batch.base:
            self._producers.add(self._to_come.pop(0)[0])
        if batch.attributes & _CONTROL:
            if _is_abort(batch):
                self._producers.discard(batch.producer)
            return True
        return bool(batch.attributes & _TRANSACTIONAL) and batch.producer in self._producers


def _batches(data: bytes) -> Iterator[_Batch]:
    at, size = 0, len(data)
    while size - at >= _HEADER.size:
        base, length, _, magic, _, attributes, delta, first, newest, producer, _, _, count = (
            _HEADER.unpack_from(data, at)
        )
        end = at + max(_LOG_OVERHEAD + length, _HEADER.size)
        if end > size:
            return
        last = base + max(delta, 0)
        timestamp = max(first, newest)
        yield _Batch(data[at:end], base, magic, attributes, last, timestamp, producer, count)
        at = end


def _records(batch: _Batch, wanted: int) -> tuple[list[Received], int]:
    """Return a batch's records from `wanted` on, and its uncompressed size in bytes."""
    offsets = range(max(batch.base, wanted), batch.last + 1)
    if batch.count > MAX_BATCH_RECORDS:
        why = f"a batch of {batch.count} records; at most {MAX_BATCH_RECORDS} are taken"
        return list(_undecodable(offsets[:ENOUGH_RECORDS], batch, why)), 0
    plain = batch.raw
    codec = batch.attributes & _CODEC_MASK
    if codec:
        try:
            body = decompress(codec, plain[_HEADER.size :])
        except Undecompressable as error:
            return list(_undecodable(offsets[:ENOUGH_RECORDS], batch, str(error))), 0
        plain = _uncompressed_header(batch, batch.count) + body
    try:
        read: list[Received] = list(DefaultRecordBatch(plain))
    except Exception:  # noqa: BLE001  the parser raises whatever the bytes lead it into
        read = list(_one_by_one(batch, plain[_HEADER.size :]))
    if batch.base < wanted:
        read = [record for record in read if record.offset >= wanted]
    if len(plain) > MAX_RECORD_BYTES:
        read = [_within_bounds(record, batch) for record in read]
    return read, len(plain)


def _within_bounds(record: Received, batch: _Batch) -> Received:
    if isinstance(record, Undecodable):
        return record
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name.encode()) + len(value or b"") + _HEADER_LENGTHS_BYTES
    if size <= MAX_RECORD_BYTES:
        return record
    why = f"a record of {size} bytes once decompressed; at most {MAX_RECORD_BYTES} can be kept"
    return Undecodable(record.offset, batch.timestamp, why)


def _one_by_one(batch: _Batch, body: bytes) -> Iterator[Received]:
    """Read each record in a batch of its own: its length says where the next one begins."""
    header = _uncompressed_header(batch, 1)
    at, offset = 0, batch.base
    for _ in range(batch.count):
        try:
            length, start = decode_varint(body, at)
            end = start + length
            if length <= 0 or end > len(body):
                raise ValueError(f"a record of {length} bytes")  # noqa: TRY301  ends the walk below
            _, after = decode_varint(body, start + 1)  # one byte of attributes, then the timestamp
            delta, _ = decode_varint(body, after)
            offset = batch.base + delta
        except (ValueError, IndexError) as error:
            yield from _undecodable(range(offset, batch.last + 1), batch, f"broken batch: {error}")
            return
        try:
            yield from DefaultRecordBatch(header + body[at:end])
        except Exception as error:  # noqa: BLE001  as above: any error means this record is bad
            yield from _undecodable(range(offset, offset + 1), batch, _why(error))
        at, offset = end, offset + 1


def _uncompressed_header(batch: _Batch, count: int) -> bytes:
    attributes = batch.attributes & ~_CODEC_MASK
    head = batch.raw[:_ATTRIBUTES_AT] + attributes.to_bytes(2, "big")
    head += batch.raw[_ATTRIBUTES_AT + 2 : _HEADER.size - _COUNT_BYTES]
    return head + count.to_bytes(_COUNT_BYTES, "big")


def _undecodable(offsets: range, batch: _Batch, why: str) -> Iterator[Undecodable]:
    return (Undecodable(offset, batch.timestamp, why) for offset in offsets)


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "a header key that is not UTF-8"
    return f"a record that does not decode ({type(error).__name__})"


def _is_abort(batch: _Batch) -> bool:
    marker = next(iter(DefaultRecordBatch(batch.raw)), None)
    return marker is not None and ControlRecord.parse(marker.key) == ABORT_MARKER
