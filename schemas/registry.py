"""What the topic `models` holds beside the models: one record of the registry as a whole.

A change of the registry is one transaction: the models it touches, then the head with the next
revision. So the revision grows with every change, also with one that only removes.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import msgspec

from schemas.control import ModelRecord
from schemas.errors import FormatError
from schemas.message import Message, decode, encode
from schemas.orders import Who, Why

HEAD_KEY = b""
"""No model can have this name."""


PACKED_BYTES_MAX = 64 * 1024
"""What a decisions record spares for the registry: some thousands of models."""


def pack(models: Mapping[str, ModelRecord]) -> tuple[int, bytes]:
    """Return a digest of all models, and their records, compressed."""
    plain = b"[" + b",".join(encode(models[name]) for name in sorted(models)) + b"]"
    return digest_of(plain), zlib.compress(plain)


def unpack(packed: bytes) -> tuple[int, dict[str, ModelRecord]]:
    """Return digest and models of a packed registry; raise FormatError."""
    try:
        plain = zlib.decompress(packed)
        models = [decode(ModelRecord, bytes(raw)) for raw in msgspec.json.decode(plain, type=_RAWS)]
    except (zlib.error, msgspec.MsgspecError) as error:
        raise FormatError("a packed registry does not decode") from error
    return digest_of(plain), {model.name: model for model in models}


def digest_of(plain: bytes) -> int:
    """Return 64 bits that tell other bytes: their length and CRC-32."""
    return len(plain) << 32 | zlib.crc32(plain)


_RAWS = list[msgspec.Raw]


class RegistryHead(Message):
    """The last change of the registry: who made it, why and when."""

    version: int = 1
    revision: int
    """Grows by one with every change."""
    who: Who
    why: Why = ""
    at_ms: int
