"""Fetched bytes are read record by record: one bad record never hides its neighbours."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from runtime.kafka import records
from runtime.kafka.records import Decoded, Received, Undecodable, decode

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NONE = 0
FAR = 1 << 40
ATTRIBUTES_AT, CRC_AT, COUNT_AT, HEADER_BYTES = 21, 17, 57, 61
TRANSACTIONAL, CONTROL = 0x10, 0x20
BAD_KEY = b"XX"  # a header key that tests replace by bytes which are not UTF-8


def checked(raw: bytearray) -> bytes:
    """Return a batch with its checksum set right."""
    struct.pack_into(">I", raw, CRC_AT, calc_crc32c(bytes(raw[ATTRIBUTES_AT:])))
    return bytes(raw)


def batch(
    base: int,
    values: Sequence[bytes | None],
    *,
    codec: int = NONE,
    producer: int = -1,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """Return a batch whose records stand at `base` and after; value b"BAD" has a broken header."""
    builder = DefaultRecordBatchBuilder(2, NONE, producer >= 0, producer, 0, 0, 1 << 30)
    for delta, value in enumerate(values):
        extra = [(BAD_KEY.decode(), b"")] if value == b"BAD" else []
        builder.append(delta, 1_000 + delta, b"key", value, [*headers, *extra])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, base)
    body = bytes(raw[HEADER_BYTES:]).replace(BAD_KEY, b"\xff\xfe")
    return packed(raw[:HEADER_BYTES], body, codec)


def packed(header: bytes, body: bytes, codec: int) -> bytes:
    """Return header and body as one batch, compressed with `codec`."""
    compress = {
        NONE: lambda data: data,
        SNAPPY: cramjam.snappy.compress_raw,
        LZ4: cramjam.lz4.compress,
        ZSTD: cramjam.zstd.compress,
        GZIP: cramjam.gzip.compress,
    }
    raw = bytearray(header) + bytes(compress[codec](body))
    struct.pack_into(">i", raw, 8, len(raw) - 12)
    raw[ATTRIBUTES_AT + 1] |= codec
    return checked(raw)


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    builder = DefaultRecordBatchBuilder(2, NONE, 1, producer, 0, 0, 1 << 20)
    builder.append(0, 1_000, struct.pack(">hh", 0, 1 if commit else 0), b"\x00" * 6, [])
    raw = bytearray(builder.build())
    struct.pack_into(">q", raw, 0, offset)
    raw[ATTRIBUTES_AT + 1] |= CONTROL
    return checked(raw)


def seen(decoded: Decoded) -> list[tuple[int, bytes | str | None]]:
    return [(r.offset, shown(r)) for r in decoded.records]


def shown(record: Received) -> bytes | str | None:
    return "undecodable" if isinstance(record, Undecodable) else record.value


def test_records_come_with_everything_they_were_produced_with() -> None:
    data = batch(5, [b"a", None], headers=[("h", b"1"), ("h", None), ("\u00fc", b"")])
    first, second = decode(data, 5, FAR).records
    assert not isinstance(first, Undecodable)
    assert (first.offset, first.timestamp, first.key, first.value) == (5, 1_000, b"key", b"a")
    assert list(first.headers) == [("h", b"1"), ("h", None), ("\u00fc", b"")]
    assert not isinstance(second, Undecodable)
    assert (second.offset, second.value) == (6, None)


def test_records_before_the_offset_asked_for_are_left_out() -> None:
    decoded = decode(batch(10, [b"a", b"b", b"c"]), 11, FAR)
    assert seen(decoded) == [(11, b"b"), (12, b"c")]
    assert decoded.next_offset == 13


def test_a_batch_cut_off_by_the_fetch_limit_is_left_for_the_next_fetch() -> None:
    whole, cut = batch(0, [b"a"]), batch(1, [b"b" * 100])
    for rest in (cut[:-1], cut[:70], cut[:20]):
        decoded = decode(whole + rest, 0, FAR)
        assert seen(decoded) == [(0, b"a")]
        assert decoded.next_offset == 1
    assert decode(b"", 7, FAR).next_offset == 7


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bad_header_key_hides_no_neighbour(codec: int) -> None:
    data = batch(0, [b"a", b"BAD", b"c", b"BAD"], codec=codec) + batch(4, [b"e"])
    decoded = decode(data, 0, FAR)
    assert seen(decoded) == [
        (0, b"a"),
        (1, "undecodable"),
        (2, b"c"),
        (3, "undecodable"),
        (4, b"e"),
    ]
    bad = decoded.records[1]
    assert isinstance(bad, Undecodable)
    assert "UTF-8" in bad.why
    assert bad.timestamp == 1_003
    assert decoded.next_offset == 5


def test_a_bad_record_is_not_told_twice_when_reading_goes_on_behind_it() -> None:
    assert seen(decode(batch(0, [b"a", b"BAD", b"c"]), 2, FAR)) == [(2, b"c")]


def test_a_batch_that_does_not_decompress_becomes_one_undecodable_for_each_record() -> None:
    good = batch(3, [b"d", b"e"], codec=ZSTD)
    broken = bytearray(good)
    broken[HEADER_BYTES:] = bytes(len(good) - HEADER_BYTES)
    data = batch(0, [b"a", b"b", b"c"]) + checked(broken) + batch(5, [b"f"])
    decoded = decode(data, 2, FAR)
    assert seen(decoded) == [(2, b"c"), (3, "undecodable"), (4, "undecodable"), (5, b"f")]


def test_a_bomb_becomes_undecodable_and_reading_goes_on() -> None:
    bomb = batch(0, [bytes(40 * 1024 * 1024)], codec=ZSTD)
    assert len(bomb) < 10_000
    assert seen(decode(bomb + batch(1, [b"b"]), 0, FAR)) == [(0, "undecodable"), (1, b"b")]


@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_a_record_too_large_for_any_topic_is_undecodable_and_its_neighbours_pass(
    codec: int,
) -> None:
    most = records.MAX_RECORD_BYTES - len(b"key")
    data = batch(0, [b"a", bytes(most), bytes(most + 1), b"BAD", b"e"], codec=codec)
    decoded = decode(data, 0, FAR)
    assert [isinstance(r, Undecodable) for r in decoded.records] == [
        False, False, True, True, False,
    ]  # fmt: skip
    too_large = decoded.records[2]
    assert isinstance(too_large, Undecodable)
    assert str(records.MAX_RECORD_BYTES) in too_large.why


def test_headers_count_into_the_size_of_a_record() -> None:
    half = bytes(records.MAX_RECORD_BYTES // 2)
    [record] = decode(batch(0, [half], headers=[("h", half)]), 0, FAR).records
    assert isinstance(record, Undecodable)


def test_a_bomb_of_tiny_records_is_told_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_BATCH_RECORDS", 5)
    monkeypatch.setattr(records, "ENOUGH_RECORDS", 4)
    data = batch(0, [b""] * 10) + batch(10, [b"k"])
    told, position = [], 0
    while position < 11:
        decoded = decode(data, position, FAR)
        told.append(seen(decoded))
        position = decoded.next_offset
    assert [len(portion) for portion in told] == [4, 4, 3]
    assert told[2][-1] == (10, b"k")


def test_decoding_stops_when_there_is_enough_and_goes_on_from_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "ENOUGH_RECORDS", 3)
    data = batch(0, [b"a", b"b"]) + batch(2, [b"c", b"d"]) + batch(4, [b"e"])
    first = decode(data, 0, FAR)
    assert [offset for offset, _ in seen(first)] == [0, 1, 2, 3]
    assert seen(decode(data, first.next_offset, FAR)) == [(4, b"e")]


def test_a_wrong_checksum_stops_reading_in_front_of_the_batch() -> None:
    broken = bytearray(batch(2, [b"c", b"d"]))
    broken[-1] ^= 1
    decoded = decode(batch(0, [b"a", b"b"]) + bytes(broken) + batch(4, [b"e"]), 0, FAR)
    assert seen(decoded) == [(0, b"a"), (1, b"b")]
    assert decoded.corrupt
    assert decoded.next_offset == 2


def test_a_wrong_checksum_is_stepped_over_when_asked_to() -> None:
    broken = bytearray(batch(2, [b"c", b"d"]))
    broken[-1] ^= 1
    data = bytes(broken) + batch(4, [b"e"])
    decoded = decode(data, 2, FAR, skip_corrupt=True)
    assert seen(decoded) == [(2, "undecodable"), (3, "undecodable")]
    assert seen(decode(data, decoded.next_offset, FAR)) == [(4, b"e")]


def test_a_broken_batch_cannot_claim_offsets_past_the_high_watermark() -> None:
    broken = bytearray(batch(2, [b"c"]))
    struct.pack_into(">i", broken, 23, 2_000_000_000)  # its last offset
    decoded = decode(bytes(broken), 2, 4, skip_corrupt=True)
    assert seen(decoded) == [(2, "undecodable"), (3, "undecodable")]


def test_a_record_of_impossible_length_ends_only_its_own_batch() -> None:
    raw = bytearray(batch(0, [b"a", b"b"]))
    second = raw.rindex(b"key") - 5  # the length of the second record
    raw[second] = 0x7E
    decoded = decode(checked(raw) + batch(2, [b"c"]), 0, FAR)
    assert seen(decoded) == [(0, b"a"), (1, "undecodable"), (2, b"c")]


def test_markers_are_left_out_and_read_past() -> None:
    data = batch(0, [b"a"], producer=7) + marker(1, 7, commit=True)
    decoded = decode(data, 0, FAR)
    assert seen(decoded) == [(0, b"a")]
    assert decoded.next_offset == 2


def test_aborted_records_are_left_out_up_to_their_marker() -> None:
    data = (
        batch(0, [b"aborted"], producer=7)
        + batch(1, [b"other"], producer=8)
        + batch(2, [b"plain"])
        + marker(3, 7, commit=False)
        + batch(4, [b"later"], producer=7)
        + marker(5, 7, commit=True)
        + marker(6, 8, commit=True)
    )
    decoded = decode(data, 0, FAR, aborted=[(7, 0)])
    assert seen(decoded) == [(1, b"other"), (2, b"plain"), (4, b"later")]
    assert decoded.next_offset == 7


def test_the_parser_of_aiokafka_gives_up_a_whole_batch_where_ours_does_not() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(DefaultRecordBatch(batch(0, [b"a", b"BAD"])))
