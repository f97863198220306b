"""What a run sends: a seeded mix of everything that may come, each record by its number alone.

Pure: the same seed and number make the same bytes again (but for the age of expired requests), so a
run is repeated by its seed.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Any, NamedTuple

import orjson

HEADER = "chaos"
"""Carries the number of a record, unchanged to its end: callers' headers are passed on."""
MODEL = "tiny-docs"
CONVERSATIONS = 16
REPEATS_WITHIN = 200
"""How many records back a repeat looks; the window of repeats holds 20,000."""
LATE_MS = 2_000


class Kind(str, Enum):
    """What a record is."""

    NORMAL = "normal"
    BATCH = "batch"
    REALTIME = "realtime"
    STRICT = "strict"
    PINNED = "pinned"
    LORA = "lora"
    REFUSED = "refused"
    CONVERSATION = "conversation"
    EXPIRED = "expired"
    UNROUTABLE = "unroutable"
    MALFORMED = "malformed"
    REPEAT = "repeat"
    CONFLICT = "conflict"


SHARES = {
    Kind.NORMAL: 25,
    Kind.BATCH: 15,
    Kind.REALTIME: 12,
    Kind.STRICT: 6,
    Kind.PINNED: 12,
    Kind.LORA: 5,
    Kind.REFUSED: 5,
    Kind.CONVERSATION: 5,
    Kind.EXPIRED: 4,
    Kind.UNROUTABLE: 3,
    Kind.MALFORMED: 4,
    Kind.REPEAT: 3,
    Kind.CONFLICT: 1,
}
"""Of a hundred records."""

FIELDS: dict[Kind, dict[str, Any]] = {
    Kind.BATCH: {"priority": "batch", "estimated_gflops": 20},
    Kind.REALTIME: {"priority": "realtime"},
    Kind.STRICT: {"latency_slo_ms": 45},
    Kind.PINNED: {"requires": {"compute_types": ["cpu"]}},
    Kind.LORA: {"has_lora": True},
    # The node hands it back, since it has no such adapter, and then no node is left for it.
    Kind.REFUSED: {"adapter": "nobody-has-it", "requires": {"compute_types": ["npu"]}},
    Kind.EXPIRED: {"expires_after_ms": 1},
    # Strict work runs on GPU only, and this asks for another.
    Kind.UNROUTABLE: {"latency_slo_ms": 45, "requires": {"compute_types": ["npu"]}},
}
MALFORMED: tuple[bytes | None, ...] = (
    b"{",
    b'"\xff"',
    None,
    b'{"id": "x", "model_name": "m", "payload": {}, "priority": 1}',
    b'{"id": "x", "model_name": "m", "payload": {}, "version": 9}',
    b'{"payload": ' + b"[" * 300 + b"]" * 300 + b"}",
)


class Shot(NamedTuple):
    """One record to send."""

    kind: Kind
    key: bytes
    value: bytes | None
    headers: list[tuple[str, bytes]]


def shot(seed: int, number: int, now_ms: int) -> Shot:
    """Return record `number` of the run with this seed, as it is sent at `now_ms`."""
    kind = kind_of(seed, number)
    headers = [(HEADER, b"%d" % number)]
    if kind is Kind.MALFORMED:
        return Shot(kind, b"%d" % number, MALFORMED[number % len(MALFORMED)], headers)
    first = _repeated(seed, number) if kind in (Kind.REPEAT, Kind.CONFLICT) else number
    document = _document(seed, first)
    if kind is Kind.CONFLICT and first != number:
        document["tenant"] = "another"
    if kind is Kind.EXPIRED:
        document["arrived_at"] = now_ms - LATE_MS
    # Repeats are known by partition: same key, same partition.
    key = document.get("conversation_id", document["id"])
    return Shot(kind, key.encode(), orjson.dumps(document), headers)


def kind_of(seed: int, number: int) -> Kind:
    """Return what record `number` is."""
    draw = random.Random(f"{seed}/{number}")
    return draw.choices(tuple(SHARES), tuple(SHARES.values()))[0]


def _repeated(seed: int, number: int) -> int:
    """Return an earlier request that ran, or would; the record itself where there is none."""
    back = random.Random(f"{seed}/{number}/again").randrange(1, REPEATS_WITHIN)
    for earlier in range(max(0, number - back), number):
        if kind_of(seed, earlier) in (Kind.NORMAL, Kind.BATCH, Kind.REALTIME):
            return earlier
    return number


def _document(seed: int, number: int) -> dict[str, Any]:
    kind = kind_of(seed, number)
    document: dict[str, Any] = {
        "id": f"c{seed}-{number}",
        "model_name": MODEL,
        "payload": {"prompt": "The with statement", "max_tokens": 4},
        **FIELDS.get(kind, {}),
    }
    if kind is Kind.CONVERSATION:
        document["conversation_id"] = f"c{seed}-talk-{number % CONVERSATIONS}"
    return document
