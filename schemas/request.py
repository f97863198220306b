"""The request: what an upstream service produces, its fields and their bounds.

`schemas.parsing` makes one of a record's bytes. The payload is an object and otherwise opaque.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

from schemas.errors import RecordRejected
from schemas.outcomes import DeadLetterCategory
from schemas.pools import ComputeType
from schemas.topics import CALLER_HEADER_BYTES_MAX, REQUEST_BYTES_MAX

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
_Number = Annotated[float, Field(strict=True, le=NUMBER_MAX)]
_Positive = Annotated[_Number, Field(gt=0)]
_Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_LENGTH_MAX)]
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


class RequestModel(BaseModel):
    """One inference request as declared; unknown fields are ignored, and kept in the bytes."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    id: Annotated[str, StringConstraints(pattern=f"^{ID_PATTERN}$")]
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


class Request(NamedTuple):
    """One inference request as read; the fields are those of `RequestModel`."""

    id: str
    model_name: str
    payload: dict[str, Any]
    version: int | str = VERSION_MAJOR
    priority: Priority = Priority.NORMAL
    latency_slo_ms: float | None = None
    estimated_gflops: float | None = None
    has_lora: bool = False
    adapter: str | None = None
    arrived_at: float | str | None = None
    expires_after_ms: float | None = None
    conversation_id: str | None = None
    tenant: str | None = None
    requires: Requires | None = None


def check_size(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> None:
    """Raise RecordRejected if a record of `requests` is larger than a request may be."""
    header_bytes = (
        sum(len(name) + len(content or b"") for name, content in headers) if headers else 0
    )
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
