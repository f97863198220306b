"""Terminal records: the one record in `results` or `dead-letter` that ends a request.

Pure. Origin, not id, is what tells requests apart: a malformed record has no id.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from aiokafka.structs import ConsumerRecord

from schemas.headers import (
    ERROR_CATEGORY,
    ERROR_MESSAGE,
    ORIGIN,
    REQUEST_ID,
    SUPERSEDES,
    Origin,
    split_headers,
)
from schemas.message import decode
from schemas.result import Result
from schemas.topics import TopicNames

Record: TypeAlias = "ConsumerRecord[bytes | None, bytes | None]"


class Terminal(NamedTuple):
    """How one request ended.

    Attributes:
        id: the request's; None where the record was no request.
        result: of a record of `results`; None for a dead letter.
        category, message: why a dead letter is one; empty for a result.
        timestamp_ms: when it was written, epoch ms.
        place: where it stands.
        supersedes: the dead letter that counts no more; of a marker only, which ends nothing.
    """

    origin: Origin
    id: str | None
    result: Result | None
    category: str
    message: str
    timestamp_ms: int
    place: Origin
    supersedes: Origin | None = None


def read_terminal(record: Record, names: TopicNames) -> Terminal:
    """Return what a record of `results` or `dead-letter` says; raise FormatError."""
    _, ours = split_headers(record.headers)
    request_id = ours.get(REQUEST_ID)
    is_result = record.topic == names.results
    return Terminal(
        origin=Origin.decode(ours.get(ORIGIN, b"")),
        id=None if request_id is None else request_id.decode("ascii", "replace"),
        result=decode(Result, record.value or b"") if is_result else None,
        category=ours.get(ERROR_CATEGORY, b"").decode("ascii", "replace"),
        message=ours.get(ERROR_MESSAGE, b"").decode("utf-8", "replace"),
        timestamp_ms=record.timestamp,
        place=Origin(record.topic, record.partition, record.offset),
        supersedes=None if (said := ours.get(SUPERSEDES)) is None else Origin.decode(said),
    )
