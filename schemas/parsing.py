"""How a record's bytes become a request: the only door.

Whatever cannot be a request leaves it as a RecordRejected with a category.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import orjson
from pydantic import ValidationError

from schemas.errors import FormatError, RecordRejected
from schemas.fast import quick
from schemas.headers import HEADERS_VERSION, VERSION, Passage, decode_passage
from schemas.outcomes import DeadLetterCategory
from schemas.request import (
    ID_PATTERN,
    NAME_LENGTH_MAX,
    NUMBER_MAX,
    VERSION_MAJOR,
    Priority,
    Request,
    RequestModel,
    epoch_ms,
)

DEPTH_MAX = 200
"""Nesting that every JSON library on a request's way can read and write."""

_validate = RequestModel.__pydantic_validator__.validate_python
_KNOWN_FIELDS = frozenset(RequestModel.model_fields)
_RARE_FIELDS = frozenset(("version", "arrived_at", "expires_after_ms", "requires"))
_is_id = re.compile(ID_PATTERN).fullmatch
_NUMBERS = frozenset((float, int))  # not bool: `true` is no number
_request = quick(Request)
_PRIORITIES: dict[Any, Priority] = {each.value: each for each in Priority}
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
    return plain_request(document) or declared_request(document)


def plain_request(document: dict[str, Any]) -> Request | None:
    """Return the request if its fields are of the plain kind that nearly all are, else None.

    It accepts nothing that the model would refuse, and reads it alike (tested), for half the time.
    """
    if not _RARE_FIELDS.isdisjoint(document):
        return None
    field = document.get
    identity, model, payload = field("id"), field("model_name"), field("payload")
    priority, has_lora = field("priority", "normal"), field("has_lora", False)
    slo_ms, gflops = field("latency_slo_ms"), field("estimated_gflops")
    adapter, conversation, tenant = field("adapter"), field("conversation_id"), field("tenant")
    if (
        type(identity) is str
        and _is_id(identity)
        and type(model) is str
        and 0 < len(model) <= NAME_LENGTH_MAX
        and type(payload) is dict
        and type(priority) is str
        and priority in _PRIORITIES
        and (has_lora is False or has_lora is True)
        and (slo_ms is None or (type(slo_ms) in _NUMBERS and 0 < slo_ms <= NUMBER_MAX))
        and (gflops is None or (type(gflops) in _NUMBERS and 0 <= gflops <= NUMBER_MAX))
        and (adapter is None or (type(adapter) is str and 0 < len(adapter) <= NAME_LENGTH_MAX))
        and (
            conversation is None
            or (type(conversation) is str and 0 < len(conversation) <= NAME_LENGTH_MAX)
        )
        and (tenant is None or (type(tenant) is str and 0 < len(tenant) <= NAME_LENGTH_MAX))
    ):
        slo_ms = None if slo_ms is None else float(slo_ms)
        gflops = None if gflops is None else float(gflops)
        return _request(
            (identity, model, payload, VERSION_MAJOR, _PRIORITIES[priority], slo_ms, gflops,
             has_lora, adapter, None, None, conversation, tenant, None)
        )  # fmt: skip
    return None


def declared_request(document: dict[str, Any]) -> Request:
    """Return the request as its model reads it; raise RecordRejected with what is wrong."""
    try:
        model: RequestModel = _validate(document)
    except ValidationError as error:
        raise _invalid(document, error) from None
    _check_version(model.version)
    if type(model.arrived_at) is str:
        epoch_ms(model.arrived_at)
    return Request(*(getattr(model, name) for name in Request._fields))


def read_passage(ours: dict[str, bytes]) -> Passage:
    """Return what our headers say; raise RecordRejected if they are not as we write them."""
    version = ours.get(VERSION, b"")
    if version.isdigit() and int(version) > HEADERS_VERSION:
        raise RecordRejected(
            DeadLetterCategory.UNSUPPORTED_VERSION,
            f"headers have version {int(version)}, this reads {HEADERS_VERSION}: upgrade it",
        )
    try:
        return decode_passage(ours)
    except FormatError as error:
        raise RecordRejected(
            DeadLetterCategory.INVALID_FIELD, f"not as Overspill writes it: {error}"
        ) from error


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
