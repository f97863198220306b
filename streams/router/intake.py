"""What a record of `requests` or `retry` is: a request with its history, or a dead letter.

Pure: no clock, no broker. Everything wrong with a record leaves as a RecordRejected.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from schemas.errors import FormatError, RecordRejected
from schemas.features import Features, features_of
from schemas.headers import Headers, Origin, Passage, decode_passage, split_headers
from schemas.outcomes import DeadLetterCategory
from schemas.request import Request, arrival_ms, check_size, parse_request

DIGEST_DIGITS = 16
"""Hex digits of the value's digest: 64 bits tell bytes apart in a window of 20,000 ids."""


class Arrival(NamedTuple):
    """A request as the router holds it until it is decided.

    Attributes:
        key, value: the record's bytes, passed on unchanged.
        headers: the caller's, untouched.
        dropped: how many headers named like ours the caller had sent.
    """

    request: Request
    features: Features
    passage: Passage
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    digest: str
    dropped: int

    @property
    def identity(self) -> tuple[str, int, int]:
        """Return what makes it the same request again: id, attempt, redrive generation."""
        return self.request.id, self.passage.attempt, self.passage.redrive


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
    digest = hashlib.sha1(value or b"", usedforsecurity=False).hexdigest()[:DIGEST_DIGITS]
    return Arrival(request, features, passage, key, value, headers, digest, dropped)
