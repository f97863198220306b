"""What a record of `requests` or `retry` is: a request with its history, or a dead letter.

Pure: no clock, no broker. Everything wrong with a record leaves as a RecordRejected.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from runtime.kafka.records import Record
from schemas.features import Features, features_of
from schemas.headers import Passage, encode_first_passage, encode_passage, split_headers
from schemas.parsing import parse_request, read_passage
from schemas.request import arrival_ms, check_size
from schemas.value import Value
from streams.router.window import Identity


class Arrival(Value, frozen=True):
    """A request as the router holds it until it is decided.

    Attributes:
        identity: what makes it the same request again.
        digest: of the value.
        key, value: the record's bytes, passed on unchanged.
        theirs: the caller's headers, untouched.
        origin: encoded.
        arrived_at_ms: epoch ms.
        dropped: how many headers named like ours the caller had sent.
        passage: what our headers said but for the decision; None for a record of `requests`.
    """

    features: Features
    identity: Identity
    digest: int
    key: bytes | None
    value: bytes | None
    theirs: Sequence[tuple[str, bytes | None]]
    origin: bytes
    arrived_at_ms: int
    dropped: int = 0
    passage: Passage | None = None

    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers to pass on: the caller's, then ours but for the decision.

        Made when they are written: kept from the reading on, those of a batch fill the processor's
        caches.
        """
        ours = (
            encode_first_passage(self.identity[0], self.origin, self.arrived_at_ms)
            if self.passage is None
            else encode_passage(self.passage)
        )
        return [*self.theirs, *ours] if self.theirs else ours


def take_request(origin: bytes, record: Record) -> Arrival:
    """Return the arrival that a record of `requests` is; raise RecordRejected."""
    key, value, headers = record.key, record.value, record.headers
    check_size(key, value, headers)
    request = parse_request(value)
    arrived_at_ms = arrival_ms(request, record.timestamp)
    theirs, dropped = headers, 0
    if headers:
        theirs, _ = split_headers(headers)  # a caller's word in our headers counts for nothing
        dropped = len(headers) - len(theirs)
    return Arrival(
        features_of(request, arrived_at_ms, origin if key is None else key),
        (request.id, 1, 0),
        value_digest(value),
        key,
        value,
        theirs,
        origin,
        arrived_at_ms,
        dropped,
    )


def take_retry(record: Record) -> Arrival:
    """Return the arrival that a record of `retry` is; raise RecordRejected.

    Its headers are ours, written by an executor: who the request is and who has refused it.
    """
    key, value = record.key, record.value
    theirs, ours = split_headers(record.headers)
    check_size(key, value, theirs)
    passage = read_passage(ours)
    request = parse_request(value)
    origin = passage.origin.encode()
    features = features_of(
        request,
        passage.arrived_at_ms,
        origin if key is None else key,
        passage.attempt,
        passage.excluded,
    )
    return Arrival(
        features,
        (request.id, passage.attempt, passage.redrive),
        value_digest(value),
        key,
        value,
        theirs,
        origin,
        passage.arrived_at_ms,
        passage=passage._replace(decision=None),
    )


def value_digest(value: bytes | None) -> int:
    """Return 64 bits that tell other bytes under the same id: their length and CRC-32.

    It guards against mistakes. Who forges a collision only hides a conflict in his own ids.
    """
    body = value or b""
    return len(body) << 32 | zlib.crc32(body)
