"""What a dead letter says beside the record: why it was rejected, and when first.

Router and executor write dead letters alike; what else they carry is theirs.
"""

from __future__ import annotations

from schemas.errors import FormatError, RecordRejected
from schemas.headers import ERROR_CATEGORY, ERROR_FIRST_SEEN, ERROR_MESSAGE, Headers, Origin
from schemas.topics import RECORD_BYTES_MAX

HEADER_OVERHEAD_BYTES = 10
"""Lengths around a header's name and value, at most: a bomb of empty headers is large by these."""
OURS_BYTES = 64 * 1024
"""Left free for our own headers, a whole ledger and long names among them."""


def can_be_kept(key: bytes | None, value: bytes | None, headers: Headers) -> bool:
    """Return whether a dead letter can hold a record as it was received.

    Kafka bounds what it stores, compressed: a bomb of a few KB is larger than any topic takes. A
    dead letter then says where the record stands, and no more.
    """
    size = len(key or b"") + len(value or b"")
    size += sum(4 * len(name) + len(content or b"") for name, content in headers)
    return size + HEADER_OVERHEAD_BYTES * len(headers) <= RECORD_BYTES_MAX - OURS_BYTES


def origin_said(carried: bytes | None, place: Origin) -> bytes:
    """Return the origin that a rejected record carries; its own place if that is none."""
    try:
        return Origin.decode(carried or b"").encode()
    except FormatError:
        return place.encode()


def rejection_headers(rejection: RecordRejected, now_ms: float) -> list[tuple[str, bytes | None]]:
    """Return the headers that say why; `now_ms` is epoch ms."""
    # A message may quote what the record holds: no text may make the dead letter itself fail.
    return [
        (ERROR_CATEGORY, rejection.category.value.encode()),
        (ERROR_MESSAGE, rejection.message.encode("utf-8", "replace")),
        (ERROR_FIRST_SEEN, b"%d" % now_ms),
    ]
