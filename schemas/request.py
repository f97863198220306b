"""The request: what an upstream service produces, its fields and their bounds.

`schemas.parsing` makes one of a record's bytes, and checks what a type cannot say. The payload is
an object and otherwise opaque.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

from msgspec import Meta

from schemas.errors import RecordRejected
from schemas.headers import header_bytes
from schemas.outcomes import DeadLetterCategory
from schemas.pools import ComputeType
from schemas.topics import CALLER_HEADER_BYTES_MAX, REQUEST_BYTES_MAX
from schemas.value import Value

VERSION_MAJOR = 1
EXPIRES_AFTER_MS_DEFAULT = 24 * 3600 * 1000
"""A day, well under the topics' retention, so that Kafka never deletes unfinished work."""
ARRIVED_AT_SKEW_MS_MAX = 5 * 60 * 1000
"""A caller's clock that is further off than this is not believed."""

ID_PATTERN = r"[A-Za-z0-9._:-]{1,128}"
NAME_LENGTH_MAX = 256
"""Characters of a model's, adapter's, conversation's or tenant's name."""
NUMBER_MAX = 1e15
"""Larger numbers of ms or GFLOPs are mistakes, and integers stay exact below it."""

_Positive = Annotated[float, Meta(gt=0, le=NUMBER_MAX)]
_NotNegative = Annotated[float, Meta(ge=0, le=NUMBER_MAX)]
_Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
_Words = Annotated[tuple[_Name, ...], Meta(max_length=64)]
_Types = Annotated[tuple[ComputeType, ...], Meta(min_length=1, max_length=len(ComputeType))]


class Priority(str, Enum):
    """How urgent a request is."""

    REALTIME = "realtime"
    NORMAL = "normal"
    BATCH = "batch"


class Requires(Value, frozen=True):
    """Capabilities a pool must have to run a request."""

    compute_types: Annotated[
        _Types | None, Meta(description="The request pins itself to these.")
    ] = None
    operators: _Words = ()
    precision: _Name | None = None
    features: _Words = ()


class Request(Value, frozen=True):
    """One inference request; unknown fields are ignored, and kept in the bytes."""

    id: Annotated[str, Meta(extra_json_schema={"pattern": f"^{ID_PATTERN}$"})]
    model_name: _Name
    payload: Annotated[
        dict[str, Any],
        Meta(description="OpenAI completion, chat or embedding body, or Open Inference Protocol."),
    ]
    version: Annotated[
        int | str, Meta(description='Format of this message: 1, or "1.<minor>".')
    ] = VERSION_MAJOR
    priority: Priority = Priority.NORMAL
    latency_slo_ms: _Positive | None = None
    estimated_gflops: _NotNegative | None = None
    has_lora: bool = False
    adapter: Annotated[
        _Name | None, Meta(description="LoRA adapter to apply; implies `has_lora`.")
    ] = None
    arrived_at: Annotated[float | str | None, Meta(description="RFC 3339, or epoch ms.")] = None
    expires_after_ms: _Positive | None = None
    conversation_id: _Name | None = None
    tenant: _Name | None = None
    requires: Requires | None = None


def check_size(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> None:
    """Raise RecordRejected if a record of `requests` is larger than a request may be."""
    of_headers = header_bytes(headers) if headers else 0
    if of_headers > CALLER_HEADER_BYTES_MAX:
        raise RecordRejected(
            DeadLetterCategory.TOO_LARGE,
            f"headers take {of_headers} bytes; at most {CALLER_HEADER_BYTES_MAX} are passed on",
        )
    total = len(key or b"") + len(value or b"") + of_headers
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
