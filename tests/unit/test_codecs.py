"""Decompression that cannot be made to eat memory."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode

from runtime.kafka.codecs import Undecompressable, decompress

PLAIN = b'{"id": "r-1", "model_name": "m", "payload": {"prompt": "hello"}}' * 500
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ENCODED = {
    "gzip": (GZIP, gzip_encode(PLAIN)),
    "snappy in the Java client's frames": (SNAPPY, snappy_encode(PLAIN)),
    "snappy bare": (SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))),
    "lz4": (LZ4, lz4_encode(PLAIN)),
    "zstd": (ZSTD, zstd_encode(PLAIN)),
}


@pytest.mark.parametrize(("codec", "data"), ENCODED.values(), ids=ENCODED)
def test_every_codec_of_kafka_decompresses(codec: int, data: bytes) -> None:
    assert decompress(codec, data) == PLAIN


@pytest.mark.parametrize(("codec", "data"), ENCODED.values(), ids=ENCODED)
def test_the_bound_is_exact(codec: int, data: bytes) -> None:
    assert decompress(codec, data, limit=len(PLAIN)) == PLAIN
    with pytest.raises(Undecompressable):
        decompress(codec, data, limit=len(PLAIN) - 1)


@pytest.mark.parametrize(("codec", "data"), ENCODED.values(), ids=ENCODED)
def test_a_cut_off_stream_is_refused(codec: int, data: bytes) -> None:
    with pytest.raises(Undecompressable):
        decompress(codec, data[: len(data) // 2])


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("data", [b"", b"\x05", b"\xff" * 64, b"\x82SNAPPY\x00" + b"\xff" * 32])
def test_garbage_is_refused(codec: int, data: bytes) -> None:
    with pytest.raises(Undecompressable):
        decompress(codec, data)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(Undecompressable, match="codec 7"):
        decompress(7, b"data")


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_bomb_is_stopped_while_it_expands(codec: int) -> None:
    zeros = bytes(64 * 1024 * 1024)
    bombs = {
        GZIP: lambda: gzip.compress(zeros, 1),
        SNAPPY: lambda: snappy_encode(zeros, xerial_blocksize=8 * 1024 * 1024),
        LZ4: lambda: bytes(cramjam.lz4.compress(zeros)),
        ZSTD: lambda: bytes(cramjam.zstd.compress(zeros)),
    }
    bomb = bombs[codec]()
    tracemalloc.start()
    try:
        with pytest.raises(Undecompressable):
            decompress(codec, bomb, limit=1024 * 1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 1024 * 1024
