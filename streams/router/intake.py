"""What a record of `requests` or `retry` is: a request with its history, or a dead letter.

Pure: no clock, no broker. Everything wrong with a record leaves as a RecordRejected.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from schemas.errors import FormatError, RecordRejected
from schemas.features import Features, features_of
from schemas.headers import Headers, Origin, Passage, decode_passage, split_headers
from schemas.outcomes import DeadLetterCategory
from schemas.request import Request, arrival_ms, check_size, parse_request
from streams.router.window import Identity


class Arrival(NamedTuple):
    """A request as the router holds it until it is decided.

    Attributes:
        identity: what makes it the same request again.
        key, value: the record's bytes, passed on unchanged.
        headers: the caller's, untouched.
        dropped: how many headers named like ours the caller had sent.
    """

    request: Request
    features: Features
    passage: Passage
    identity: Identity
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    digest: int
    dropped: int


def take_request(
    origin: Origin, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> Arrival:
    """Return the arrival that a record of `requests` is; raise RecordRejected."""
    check_size(key, value, headers)
    request = parse_request(value)
    theirs, ours = split_headers(headers) if headers else ([], {})
    passage = Passage(request.id, origin, arrival_ms(request, timestamp_ms))
    return _arrival(request, passage, key, value, theirs, len(ours))


def take_retry(key: bytes | None, value: bytes | None, headers: Headers) -> Arrival:
    """Return the arrival that a record of `retry` is; raise RecordRejected.

    Its headers are ours, written by an executor: who the request is and who has refused it.
    """
    theirs, ours = split_headers(headers)
    try:
        passage = decode_passage(ours)
    except FormatError as error:
        raise RecordRejected(DeadLetterCategory.UNSUPPORTED_VERSION, str(error)) from None
    return _arrival(parse_request(value), passage, key, value, theirs, 0)


def _arrival(
    request: Request,
    passage: Passage,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    dropped: int,
) -> Arrival:
    features = features_of(
        request,
        arrived_at_ms=passage.arrived_at_ms,
        key=passage.origin.encode() if key is None else key,
        attempt=passage.attempt,
        excluded=passage.excluded,
    )
    identity = request.id, passage.attempt, passage.redrive
    return Arrival(
        request, features, passage, identity, key, value, headers, value_digest(value), dropped
    )


def value_digest(value: bytes | None) -> int:
    """Return 64 bits that tell other bytes under the same id: their length and CRC-32.

    It guards against mistakes. Who forges a collision only hides a conflict in his own ids.
    """
    body = value or b""
    return len(body) << 32 | zlib.crc32(body)
