"""The request: what an upstream service produces, and how its bytes become one.

`parse_request` is the only door: whatever cannot be a request leaves it as a RecordRejected with a
category. The payload is checked to be an object and is otherwise opaque.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, ValidationError

from schemas.errors import RecordRejected
from schemas.outcomes import DeadLetterCategory
from schemas.pools import ComputeType
from schemas.topics import CALLER_HEADER_BYTES_MAX, REQUEST_BYTES_MAX

VERSION_MAJOR = 1
DEPTH_MAX = 200
"""Nesting that every JSON library on a request's way can read and write."""
EXPIRES_AFTER_MS_DEFAULT = 24 * 3600 * 1000
"""A day, well under the topics' retention, so that Kafka never deletes unfinished work."""
ARRIVED_AT_SKEW_MS_MAX = 5 * 60 * 1000
"""A caller's clock that is further off than this is not believed."""

_NUMBER_MAX = 1e15
"""Larger numbers of ms or GFLOPs are mistakes, and integers stay exact below it."""
_Number = Annotated[float, Field(strict=True, le=_NUMBER_MAX)]
_Positive = Annotated[_Number, Field(gt=0)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
_Words = Annotated[tuple[_Name, ...], Field(max_length=64)]


class Priority(str, Enum):
    """How urgent a request is."""

    REALTIME = "realtime"
    NORMAL = "normal"
    BATCH = "batch"


class Requires(BaseModel):
    """Capabilities a pool must have to run a request."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    compute_types: Annotated[tuple[ComputeType, ...], Field(min_length=1)] | None = None
    """The request pins itself to these."""
    operators: _Words = ()
    precision: _Name | None = None
    features: _Words = ()


class Request(BaseModel):
    """One inference request; unknown fields are ignored here and kept in the record's bytes."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]{1,128}$")]
    model_name: _Name
    payload: dict[str, Any]
    """OpenAI completion, chat or embedding body, or an Open Inference Protocol body."""
    version: Annotated[int, Field(strict=True)] | str = VERSION_MAJOR
    """Format of this message: `1`, or `"1.<minor>"`."""
    priority: Priority = Priority.NORMAL
    latency_slo_ms: _Positive | None = None
    estimated_gflops: Annotated[_Number, Field(ge=0)] | None = None
    has_lora: StrictBool = False
    adapter: _Name | None = None
    """Name of the LoRA adapter to apply; implies `has_lora`."""
    arrived_at: _Number | str | None = None
    """RFC 3339, or epoch ms."""
    expires_after_ms: _Positive | None = None
    conversation_id: _Name | None = None
    tenant: _Name | None = None
    requires: Requires | None = None


_validate = Request.__pydantic_validator__.validate_python
_KNOWN_FIELDS = frozenset(Request.model_fields)
_QUOTED = {name: b'"%s"' % name.encode() for name in _KNOWN_FIELDS}
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_ESCAPED_KEY_LETTERS = (rb"\u005", rb"\u006", rb"\u007")
"""JSON escapes of `_` and of lower-case letters: only these can hide one of our field names."""


def parse_request(value: bytes | None) -> Request:
    """Return the request that the bytes are; raise RecordRejected if they are none."""
    if value is None:
        raise RecordRejected(
            DeadLetterCategory.NULL_VALUE, "the record has no value; send a JSON object"
        )
    _check_depth(value)
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise _not_json(value, error) from None
    if type(document) is not dict:
        raise RecordRejected(DeadLetterCategory.NOT_JSON, "the value is JSON but not an object")
    _check_no_field_twice(value, document)
    try:
        request: Request = _validate(document)
    except ValidationError as error:
        raise _invalid(document, error) from None
    _check_version(request.version)
    if type(request.arrived_at) is str:
        epoch_ms(request.arrived_at)
    return request


def check_size(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> None:
    """Raise RecordRejected if a record of `requests` is larger than a request may be."""
    header_bytes = sum(len(name) + len(content or b"") for name, content in headers)
    if header_bytes > CALLER_HEADER_BYTES_MAX:
        raise RecordRejected(
            DeadLetterCategory.TOO_LARGE,
            f"headers take {header_bytes} bytes; at most {CALLER_HEADER_BYTES_MAX} are passed on",
        )
    total = len(key or b"") + len(value or b"") + header_bytes
    if total > REQUEST_BYTES_MAX:
        raise RecordRejected(
            DeadLetterCategory.TOO_LARGE,
            f"the record takes {total} bytes; a request takes at most {REQUEST_BYTES_MAX}",
        )


def arrival_ms(request: Request, record_timestamp_ms: int) -> int:
    """Return when the request arrived, epoch ms.

    The caller's `arrived_at` counts unless it is more than five minutes from the record's own
    timestamp: then one of the clocks is wrong, and the record's is the one Kafka bounds.
    """
    if request.arrived_at is None:
        return record_timestamp_ms
    claimed = epoch_ms(request.arrived_at)
    if abs(claimed - record_timestamp_ms) > ARRIVED_AT_SKEW_MS_MAX:
        return record_timestamp_ms
    return int(claimed)


def expiry_ms(request: Request, arrived_at_ms: int) -> int:
    """Return when the request expires, epoch ms; a day after arrival unless it says otherwise."""
    return arrived_at_ms + int(request.expires_after_ms or EXPIRES_AFTER_MS_DEFAULT)


def epoch_ms(moment: float | str) -> float:
    """Return epoch ms of a number (already ms) or an RFC 3339 text; raise RecordRejected."""
    if not isinstance(moment, str):
        return moment
    try:
        # fromisoformat of Python 3.10 does not know the suffix Z.
        parsed = dt.datetime.fromisoformat(moment.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise RecordRejected(
            DeadLetterCategory.INVALID_FIELD,
            "arrived_at: give epoch ms or RFC 3339 with an offset, as 2026-11-29T12:00:00Z",
        )
    return parsed.timestamp() * 1000


def _check_depth(value: bytes) -> None:
    # A document deeper than the limit needs that many openers and closers: most are too short.
    if len(value) <= 2 * DEPTH_MAX or value.count(b"{") + value.count(b"[") <= DEPTH_MAX:
        return
    depth = 0
    for token in _STRING_OR_BRACKET.findall(value):
        if token in b"{[":
            depth += 1
            if depth > DEPTH_MAX:
                raise RecordRejected(
                    DeadLetterCategory.TOO_DEEP, f"the value is nested deeper than {DEPTH_MAX}"
                )
        elif token in b"}]":
            depth -= 1


def _check_no_field_twice(value: bytes, document: dict[str, Any]) -> None:
    """Raise RecordRejected if a field we know stands twice: parsers differ on which one counts."""
    payload = document.get("payload")
    # Each pair has one colon outside strings, so as many colons as distinct keys proves there is no
    # repetition; then come the documents with colons in strings, then everything else.
    if type(payload) is dict and value.count(b":") == len(document) + len(payload):
        return
    if all(
        value.count(_QUOTED[name]) == 1 for name in document if name in _KNOWN_FIELDS
    ) and not any(escape in value for escape in _ESCAPED_KEY_LETTERS):
        return
    pairs: list[tuple[str, Any]] = []

    def keep_outermost(found: list[tuple[str, Any]]) -> None:
        pairs[:] = found  # the hook runs innermost first: the last call is the document's

    json.loads(value, object_pairs_hook=keep_outermost)
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1 and name in _KNOWN_FIELDS:
            raise RecordRejected(
                DeadLetterCategory.INVALID_FIELD,
                f"{name}: the field stands {times} times; send it once",
            )


def _not_json(value: bytes, error: orjson.JSONDecodeError) -> RecordRejected:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return RecordRejected(
            DeadLetterCategory.BAD_ENCODING, f"the value is not UTF-8 (byte {undecodable.start})"
        )
    if "surrogate" in error.msg:
        return RecordRejected(
            DeadLetterCategory.BAD_ENCODING, "the value escapes half of a surrogate pair"
        )
    return RecordRejected(
        DeadLetterCategory.NOT_JSON,
        f"the value is not JSON (line {error.lineno}, column {error.colno})",
    )


def _invalid(document: dict[str, Any], error: ValidationError) -> RecordRejected:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"][:3])
    if isinstance(version := document.get("version"), (int, str)):
        _check_version(version)  # a newer format may well have other fields: say that first
    return RecordRejected(DeadLetterCategory.INVALID_FIELD, f"{where}: {first['msg']}")


def _check_version(version: int | str) -> None:
    if version == VERSION_MAJOR or str(version).partition(".")[0] == str(VERSION_MAJOR):
        return
    raise RecordRejected(
        DeadLetterCategory.UNSUPPORTED_VERSION,
        f"version: this router reads {VERSION_MAJOR}.x; upgrade it or send that",
    )
