"""The `overspill-*` record headers: how a request's identity and history travel with its bytes.

All of them are written by us; those that a caller sends on `requests` are dropped. The header
`overspill-version` versions the whole set: a reader accepts its own version and the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

import orjson

from schemas.document import to_json
from schemas.errors import FormatError

PREFIX = "overspill-"
REQUEST_ID = "overspill-request-id"
ORIGIN = "overspill-origin"
ARRIVED_AT = "overspill-arrived-at"
DECISION = "overspill-decision"
ATTEMPT = "overspill-attempt"
EXCLUDED = "overspill-excluded"
REFUSED = "overspill-refused"
SPENT = "overspill-spent"
REDRIVE = "overspill-redrive"
SUPERSEDES = "overspill-supersedes"
"""On a marker in `dead-letter`: the place of the dead letter that was sent in again."""
VERSION = "overspill-version"
ERROR_CATEGORY = "overspill-error-category"
ERROR_MESSAGE = "overspill-error-message"
ERROR_FIRST_SEEN = "overspill-error-first-seen"
FINISHED = "overspill-finished"
LEDGER = "overspill-ledger"
"""Offset metadata of a pool partition, on the last of its records in a transaction."""

HEADERS_VERSION = 1
VERSION_HEADER = (VERSION, b"%d" % HEADERS_VERSION)
_FIRST_ATTEMPT = (ATTEMPT, b"1")
FOR_GOOD = -1
"""`until` of a node that refused a request permanently."""
NUMBER_MAX = 2**63 - 1
"""Of what a header says: Kafka's own numbers and our JSON writer end there."""
REFUSALS_MAX = 4
"""As many nodes may try a request; the last ones count."""
REFUSAL_CHARS_MAX = 200
EXCLUDED_BYTES_MAX = 16 * 1024
"""A few refusals of nodes with long names; all of it goes into one row of `decisions`."""

Headers = Sequence[tuple[str, bytes | None]]
"""As Kafka has them: in order, names may repeat, a value may be null."""


class Origin(NamedTuple):
    """The record of `requests` that a request is: its identity for every promise."""

    topic: str
    partition: int
    offset: int

    def encode(self) -> bytes:
        """Return `topic/partition/offset` in ASCII."""
        return b"%s/%d/%d" % (self.topic.encode(), self.partition, self.offset)

    @staticmethod
    def decode(raw: bytes) -> Origin:
        """Return the origin in a header's value; raise FormatError."""
        try:
            topic, partition, offset = raw.decode("ascii").rsplit("/", 2)
            return Origin(topic, _number(partition), _number(offset))
        except (UnicodeDecodeError, ValueError) as error:
            raise FormatError(f"header {ORIGIN} is not topic/partition/offset") from error


class Finished(NamedTuple):
    """What a node wrote a record for: it left this place of a pool topic, as the `total`-th.

    With `LEDGER` it lets lost offsets be rebuilt from what was written.
    """

    topic: str
    partition: int
    offset: int
    total: int

    def encode(self) -> bytes:
        """Return `topic/partition/offset/total` in ASCII."""
        return b"%s/%d/%d/%d" % (self.topic.encode(), self.partition, self.offset, self.total)

    @staticmethod
    def decode(raw: bytes) -> Finished:
        """Return what a header's value says; raise FormatError."""
        try:
            topic, partition, offset, total = raw.decode("ascii").rsplit("/", 3)
            return Finished(topic, int(partition), int(offset), int(total))
        except (UnicodeDecodeError, ValueError) as error:
            raise FormatError(f"header {FINISHED} is not topic/partition/offset/total") from error


class Exclusion(NamedTuple):
    """A node that refused this request, and until when (epoch ms; FOR_GOOD: for ever)."""

    node: str
    until_ms: int


class Refusal(NamedTuple):
    """What a node said when it handed the request back: error category and message."""

    node: str
    why: str


class Passage(NamedTuple):
    """What our headers say of a request between two hops.

    Attributes:
        arrived_at_ms: epoch ms, stamped by the first router and used by all later hops.
        attempt: from 1; a refusal adds one.
        redrive: how often an operator sent it again.
        refusals: why nodes handed it back, the last ones.
        spent: (pool, cost) of attempts that nodes handed back after a run.
    """

    request_id: str
    origin: Origin
    arrived_at_ms: int
    attempt: int = 1
    excluded: tuple[Exclusion, ...] = ()
    redrive: int = 0
    decision: bytes | None = None
    refusals: tuple[Refusal, ...] = ()
    spent: tuple[tuple[str, float], ...] = ()


def encode_excluded(excluded: Iterable[Exclusion]) -> bytes:
    """Return the exclusions as a JSON list of [node, until]."""
    return to_json([list(exclusion) for exclusion in excluded])


def header_bytes(headers: Headers) -> int:
    """Return the size of names and values in bytes; a character of a name counts as one."""
    return sum(len(name) + len(value or b"") for name, value in headers)


def split_headers(headers: Headers) -> tuple[list[tuple[str, bytes | None]], dict[str, bytes]]:
    """Return the caller's headers untouched and in order, and ours by name (the last one wins)."""
    theirs: list[tuple[str, bytes | None]] = []
    ours: dict[str, bytes] = {}
    for name, value in headers:
        if name.startswith(PREFIX):
            ours[name] = value or b""
        else:
            theirs.append((name, value))
    return theirs, ours


def encode_passage(
    passage: Passage, decision: bytes | None = None
) -> list[tuple[str, bytes | None]]:
    """Return our headers for a record between two hops; `decision` stands in for the passage's."""
    headers: list[tuple[str, bytes | None]] = [
        (REQUEST_ID, passage.request_id.encode()),
        (ORIGIN, passage.origin.encode()),
        (ARRIVED_AT, b"%d" % passage.arrived_at_ms),
        (ATTEMPT, b"%d" % passage.attempt),
        VERSION_HEADER,
    ]
    if passage.excluded:
        headers.append((EXCLUDED, encode_excluded(passage.excluded)))
    if passage.refusals:
        headers.append((REFUSED, _encode_refusals(passage.refusals)))
    if passage.spent:
        headers.append((SPENT, to_json(passage.spent)))
    if passage.redrive:
        headers.append((REDRIVE, b"%d" % passage.redrive))
    decision = decision or passage.decision
    if decision is not None:
        headers.append((DECISION, decision))
    return headers


def encode_first_passage(
    request_id: str, origin: bytes, arrived_at_ms: int
) -> list[tuple[str, bytes | None]]:
    """Return what `encode_passage` does for a request that comes in; `origin` is encoded already.

    A router calls it for every record, and makes no Passage that nobody else reads.
    """
    return [
        (REQUEST_ID, request_id.encode()),
        (ORIGIN, origin),
        (ARRIVED_AT, b"%d" % arrived_at_ms),
        _FIRST_ATTEMPT,
        VERSION_HEADER,
    ]


def redrive_of(ours: dict[str, bytes]) -> int:
    """Return how often a request was sent in again; raise FormatError where it is no number."""
    try:
        return _number(ours.get(REDRIVE, b"0"))
    except ValueError as error:
        raise FormatError(f"header {REDRIVE} is no number") from error


def decode_passage(ours: dict[str, bytes]) -> Passage:
    """Return what our headers say; raise FormatError if one is missing, wrong or too new."""
    try:
        version = int(ours[VERSION])
        if version > HEADERS_VERSION:
            raise FormatError(
                f"headers have version {version}, this process reads {HEADERS_VERSION}: upgrade it"
            )
        return Passage(
            request_id=ours[REQUEST_ID].decode("ascii"),
            origin=Origin.decode(ours[ORIGIN]),
            arrived_at_ms=_number(ours[ARRIVED_AT], least=-NUMBER_MAX),
            attempt=_number(ours[ATTEMPT], least=1),
            excluded=_decode_excluded(ours.get(EXCLUDED, b"[]")),
            redrive=redrive_of(ours),
            decision=ours.get(DECISION),
            refusals=_decode_refusals(ours.get(REFUSED, b"[]")),
            spent=_decode_spent(ours.get(SPENT, b"[]")),
        )
    except KeyError as missing:
        raise FormatError(f"header {missing.args[0]} is missing") from missing
    except (ValueError, TypeError) as error:
        raise FormatError("an overspill header does not decode") from error


def _decode_refusals(raw: bytes) -> tuple[Refusal, ...]:
    return tuple(Refusal(str(node), str(why)) for node, why in orjson.loads(raw))


def _encode_refusals(refusals: Sequence[Refusal]) -> bytes:
    return to_json([(node, why[:REFUSAL_CHARS_MAX]) for node, why in refusals[-REFUSALS_MAX:]])


def _decode_spent(raw: bytes) -> tuple[tuple[str, float], ...]:
    return tuple((str(pool), _cost(cost)) for pool, cost in orjson.loads(raw))


def _cost(said: float | str) -> float:
    cost = float(said)
    if not isfinite(cost):  # text may say so where JSON cannot
        raise ValueError(f"a cost is {cost}")
    return cost


def _decode_excluded(raw: bytes) -> tuple[Exclusion, ...]:
    if len(raw) > EXCLUDED_BYTES_MAX:
        raise ValueError(f"header {EXCLUDED} takes {len(raw)} bytes")
    return tuple(
        Exclusion(str(node), _number(until, least=FOR_GOOD)) for node, until in orjson.loads(raw)
    )


def _number(said: bytes | str | int, least: int = 0) -> int:
    """Return the number; ValueError unless it is one that every writer of ours can pass on."""
    number = int(said)
    if not least <= number <= NUMBER_MAX:
        raise ValueError(f"{number} is not between {least} and {NUMBER_MAX}")
    return number
