"""How a record's bytes become a request: the only door.

Whatever cannot be a request leaves it as a RecordRejected with a category.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from typing import Any

import msgspec
import orjson

from schemas.errors import FormatError, RecordRejected
from schemas.headers import HEADERS_VERSION, VERSION, Passage, decode_passage
from schemas.outcomes import DeadLetterCategory
from schemas.pools import ComputeType
from schemas.request import (
    ID_PATTERN,
    VERSION_MAJOR,
    Priority,
    Request,
    epoch_ms,
)

DEPTH_MAX = 200
"""Nesting that every JSON library on a request's way can read and write."""
_DEEP_BYTES = 2 * DEPTH_MAX
"""A document deeper than the limit has that many openers and closers, so it is longer than this."""

_KNOWN_FIELDS = frozenset(Request.__struct_fields__)
_is_id = re.compile(ID_PATTERN).fullmatch
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
    if len(value) > _DEEP_BYTES:
        _check_depth(value)
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise _not_json(value, error) from None
    if type(document) is not dict:
        raise RecordRejected(DeadLetterCategory.NOT_JSON, "the value is JSON but not an object")
    # Each pair has one colon outside strings, so as many colons as distinct keys proves that no
    # field stands twice; all others are looked at more closely.
    payload = document.get("payload")
    if type(payload) is not dict or value.count(b":") != len(document) + len(payload):
        _check_no_field_twice(value, document)
    try:
        request = msgspec.convert(document, Request)
    except msgspec.ValidationError as error:
        raise _invalid(document, error) from None
    if not _is_id(request.id):
        raise RecordRejected(
            DeadLetterCategory.INVALID_FIELD,
            "id: give it 1 to 128 of the characters A-Z, a-z, 0-9 and ._:-",
        )
    if request.version != VERSION_MAJOR:
        _check_version(request.version)
    if type(request.arrived_at) is str:
        epoch_ms(request.arrived_at)  # raises if it is no moment
    return request


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
    if value.count(b"{") + value.count(b"[") <= DEPTH_MAX:
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
    if value.startswith(codecs.BOM_UTF8):
        return RecordRejected(
            DeadLetterCategory.NOT_JSON, "the value begins with a byte order mark; send it without"
        )
    return RecordRejected(DeadLetterCategory.NOT_JSON, f"the value is not JSON ({_place(error)})")


def _place(error: orjson.JSONDecodeError) -> str:
    # Of a document of one line, which may be a line of a file, the column says all.
    column = f"column {error.colno}"
    return f"line {error.lineno}, {column}" if error.lineno > 1 else column


def _invalid(document: dict[str, Any], error: msgspec.ValidationError) -> RecordRejected:
    if isinstance(version := document.get("version"), (int, str)):
        _check_version(version)  # a newer format may well have other fields: say that first
    what, _, where = str(error).partition(" - at `$.")
    if what.startswith("Invalid enum value"):
        known = Priority if where.startswith("priority") else ComputeType
        what = f"{what}; give one of {', '.join(known)}"
    return RecordRejected(
        DeadLetterCategory.INVALID_FIELD, f"{where.rstrip('`')}: {what}" if where else what
    )


def _check_version(version: int | str) -> None:
    if version == VERSION_MAJOR or str(version).partition(".")[0] == str(VERSION_MAJOR):
        return
    raise RecordRejected(
        DeadLetterCategory.UNSUPPORTED_VERSION,
        f"version: this router reads {VERSION_MAJOR}.x; upgrade it or send that",
    )
