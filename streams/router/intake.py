"""What a record of `requests` or `retry` is: a request with its history, or a dead letter.

Pure: no clock, no broker. Everything wrong with a record leaves as a RecordRejected.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from schemas.fast import quick
from schemas.features import Features, features_of
from schemas.headers import (
    Headers,
    encode_first_passage,
    encode_passage,
    split_headers,
)
from schemas.parsing import parse_request, read_passage
from schemas.request import arrival_ms, check_size
from streams.router.window import Identity


class Arrival(NamedTuple):
    """A request as the router holds it until it is decided.

    Attributes:
        identity: what makes it the same request again.
        key, value: the record's bytes, passed on unchanged.
        headers: the caller's, untouched, then ours but for the decision.
        origin: encoded.
        tenant: whom the request is for.
        dropped: how many headers named like ours the caller had sent.
    """

    features: Features
    identity: Identity
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    origin: bytes
    arrived_at_ms: int
    digest: int
    tenant: str | None
    dropped: int


_arrival = quick(Arrival)


def take_request(
    origin: bytes, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
) -> Arrival:
    """Return the arrival that a record of `requests` is; raise RecordRejected."""
    check_size(key, value, headers)
    request = parse_request(value)
    arrived_at_ms = arrival_ms(request, timestamp_ms)
    features = features_of(request, arrived_at_ms=arrived_at_ms, key=origin if key is None else key)
    passed_on = encode_first_passage(request.id, origin, arrived_at_ms)
    dropped = 0
    if headers:
        theirs, _ = split_headers(headers)  # a caller's word in our headers counts for nothing
        passed_on, dropped = theirs + passed_on, len(headers) - len(theirs)
    identity = request.id, 1, 0
    return _arrival(
        (features, identity, key, value, passed_on, origin, arrived_at_ms, value_digest(value),
         request.tenant, dropped)
    )  # fmt: skip


def take_retry(key: bytes | None, value: bytes | None, headers: Headers) -> Arrival:
    """Return the arrival that a record of `retry` is; raise RecordRejected.

    Its headers are ours, written by an executor: who the request is and who has refused it.
    """
    theirs, ours = split_headers(headers)
    check_size(key, value, theirs)
    passage = read_passage(ours)
    request = parse_request(value)
    origin = passage.origin.encode()
    features = features_of(
        request,
        arrived_at_ms=passage.arrived_at_ms,
        key=origin if key is None else key,
        attempt=passage.attempt,
        excluded=passage.excluded,
    )
    passed_on = theirs + encode_passage(passage._replace(decision=None))
    identity = request.id, passage.attempt, passage.redrive
    return _arrival(
        (features, identity, key, value, passed_on, origin, passage.arrived_at_ms,
         value_digest(value), request.tenant, 0)
    )  # fmt: skip


def value_digest(value: bytes | None) -> int:
    """Return 64 bits that tell other bytes under the same id: their length and CRC-32.

    It guards against mistakes. Who forges a collision only hides a conflict in his own ids.
    """
    body = value or b""
    return len(body) << 32 | zlib.crc32(body)
