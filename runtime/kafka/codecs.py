"""Decompress a record batch without trusting it.

A megabyte of zstd can claim gigabytes. Every codec here stops at a bound while it decompresses,
which aiokafka's own functions do not. Pure; knows nothing of records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

import cramjam

MAX_UNCOMPRESSED = 32 * 1024 * 1024
"""Bytes a batch may expand to. Producers fill batches of at most a few MiB before compression, and
brokers take 1 MiB of `requests` after it: 32 times that is no honest batch."""

_FIRST_GUESS = 8  # x the compressed size: what JSON usually needs; grown by the same factor
_GZIP_WINDOW = 31  # zlib's way to say: gzip header and trailer
_XERIAL_MAGIC = b"\x82SNAPPY\x00"  # the Java client's framing of snappy blocks
_XERIAL_HEADER = 16


class Undecompressable(ValueError):
    """Bytes that do not decompress, or not within the bound."""


def decompress(codec: int, data: bytes, limit: int = MAX_UNCOMPRESSED) -> bytes:
    """Return the decompressed bytes of a batch.

    Args:
        codec: Kafka's number: 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        data: what stands after the batch's header.
        limit: most bytes to produce.

    Raises:
        Undecompressable: unknown codec, broken stream, or more than `limit` bytes.
    """
    if codec not in _CODECS:
        raise Undecompressable(f"unknown compression codec {codec}")
    name, decoder = _CODECS[codec]
    try:
        return decoder(data, limit)
    except (cramjam.DecompressionError, zlib.error, struct.error) as error:
        raise Undecompressable(f"{name}: {error} (at most {limit} bytes are taken)") from error


def _gzip(data: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    plain = stream.decompress(data, limit)
    if not stream.eof:
        raise Undecompressable(f"gzip: cut short, or more than {limit} bytes")
    return plain


def _snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, limit)
    plain = bytearray()
    at = _XERIAL_HEADER
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size <= 0:
            raise Undecompressable(f"snappy: a block of {size} bytes")
        plain += _snappy_block(data[at + 4 : at + 4 + size], limit - len(plain))
        at += 4 + size
    return bytes(plain)


def _snappy_block(data: bytes, limit: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(data)
    if size > limit:
        raise Undecompressable(f"snappy: more than {limit} bytes")
    plain = bytearray(size)
    cramjam.snappy.decompress_raw_into(data, plain)
    return bytes(plain)


def _growing(decompress_into: Callable[[bytes, bytearray], int]) -> Callable[[bytes, int], bytes]:
    """Return a decoder that tries ever larger buffers: overflow and a broken stream look alike."""

    def decoder(data: bytes, limit: int) -> bytes:
        size = min(limit, max(len(data), 1024) * _FIRST_GUESS)
        while True:
            plain = bytearray(size)
            try:
                used = decompress_into(data, plain)
            except cramjam.DecompressionError:
                if size == limit:
                    raise
                size = min(limit, size * _FIRST_GUESS)
            else:
                return bytes(memoryview(plain)[:used])

    return decoder


_CODECS: dict[int, tuple[str, Callable[[bytes, int], bytes]]] = {
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _growing(cramjam.lz4.decompress_into)),
    4: ("zstd", _growing(cramjam.zstd.decompress_into)),
}
