"""What a run sends: a seeded mix of everything that may come, each record by its number alone.

Pure: the same seed and number make the same bytes again (but for the age of expired requests), so a
run is repeated by its seed.
"""

from __future__ import annotations

import random
from enum import Enum
from typing import Any, NamedTuple

import orjson

from schemas.topics import REQUEST_BYTES_MAX

HEADER = "chaos"
"""Carries the number of a record, unchanged to its end: callers' headers are passed on."""
MODEL = "tiny-docs"
CONVERSATIONS = 16
REPEATS_WITHIN = 200
"""How many records back a repeat looks; the window of repeats holds 20,000."""
LATE_MS = 2_000
BROKEN_MODEL = "policy-trips-over-it"
"""The policy raises at this name (`sabotage/sitecustomize.py`), as at a fault of ours."""


class Kind(str, Enum):
    """What a record is; the last group is what backends do of it (`sabotage/sitecustomize.py`)."""

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
    POLICY_FAULT = "policy-fault"
    LARGEST = "largest"
    TOO_LARGE = "too-large"

    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    FAILS = "fails"
    RAISES = "raises"
    REJECTED = "rejected"
    HANGS = "hangs"
    LONG = "long"
    WORDY = "wordy"


SHARES = {
    Kind.NORMAL: 257,
    Kind.BATCH: 140,
    Kind.REALTIME: 120,
    Kind.STRICT: 60,
    Kind.PINNED: 120,
    Kind.LORA: 50,
    Kind.REFUSED: 50,
    Kind.CONVERSATION: 50,
    Kind.EXPIRED: 30,
    Kind.UNROUTABLE: 20,
    Kind.MALFORMED: 30,
    Kind.REPEAT: 30,
    Kind.CONFLICT: 10,
    Kind.POLICY_FAULT: 5,
    Kind.LARGEST: 1,
    Kind.TOO_LARGE: 1,
    Kind.OVERLOADED: 10,
    Kind.UNAVAILABLE: 3,
    Kind.FAILS: 3,
    Kind.RAISES: 3,
    Kind.REJECTED: 3,
    Kind.HANGS: 2,
    Kind.LONG: 1,
    Kind.WORDY: 1,
}
"""Of a thousand records."""

ANYWHERE_EMULATED: dict[str, Any] = {"requires": {"compute_types": ["gpu", "cpu"]}}
BRIEF: dict[str, Any] = {**ANYWHERE_EMULATED, "expires_after_ms": 4_000}
"""What never gets an answer ends after this."""
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
    Kind.POLICY_FAULT: {"model_name": BROKEN_MODEL},
    # The small model's context is too short for it.
    Kind.LARGEST: ANYWHERE_EMULATED,
    Kind.OVERLOADED: ANYWHERE_EMULATED,
    Kind.UNAVAILABLE: BRIEF,
    Kind.FAILS: BRIEF,
    Kind.RAISES: BRIEF,
    Kind.REJECTED: ANYWHERE_EMULATED,
    Kind.HANGS: BRIEF,
    Kind.LONG: ANYWHERE_EMULATED,
    Kind.WORDY: ANYWHERE_EMULATED,
}
BEHAVIOURS = frozenset(tuple(Kind)[tuple(Kind).index(Kind.OVERLOADED) :])
"""Kinds that tell a backend how to behave."""

OK = frozenset({"ok"})
WITHOUT_AN_ANSWER = frozenset({"expired", "attempts-exhausted", "unroutable"})
ENDS: dict[Kind, frozenset[str]] = {
    # A router that knows no nodes yet sends it where it was refused, until it was tried enough.
    Kind.REFUSED: frozenset({"unroutable", "attempts-exhausted"}),
    Kind.EXPIRED: frozenset({"expired"}),
    Kind.UNROUTABLE: frozenset({"unroutable"}),
    Kind.MALFORMED: frozenset(
        {"not-json", "null-value", "invalid-field", "unsupported-version", "too-deep",
         "bad-encoding"}
    ),
    # Partitions may have been added, or the first of the kind was the first record of all.
    Kind.REPEAT: OK | {"repeat"},
    Kind.CONFLICT: OK | {"conflict"},
    Kind.POLICY_FAULT: frozenset({"internal"}),
    Kind.TOO_LARGE: frozenset({"too-large"}),
    Kind.UNAVAILABLE: WITHOUT_AN_ANSWER,
    Kind.FAILS: WITHOUT_AN_ANSWER,
    Kind.RAISES: WITHOUT_AN_ANSWER,
    Kind.REJECTED: frozenset({"bad-request"}),
    Kind.HANGS: frozenset({"expired"}),
    Kind.WORDY: frozenset({"result-too-large"}),
}  # fmt: skip
"""How each kind may end, whatever is killed meanwhile: status `ok` or `expired`, the category of an
error or of a dead letter, or as a repeat. The others: ok."""
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
    key = document.get("conversation_id", document["id"]).encode()
    if kind in (Kind.LARGEST, Kind.TOO_LARGE):
        _fill_up(document, key, headers, by=kind is Kind.TOO_LARGE)
    return Shot(kind, key, orjson.dumps(document), headers)


def ends_of(seed: int, number: int) -> frozenset[str]:
    """Return how record `number` may end."""
    return ENDS.get(kind_of(seed, number), OK)


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


def _fill_up(
    document: dict[str, Any], key: bytes, headers: list[tuple[str, bytes]], *, by: bool
) -> None:
    """Make the whole record as large as a request may be, or one byte larger."""
    takes = len(key) + len(orjson.dumps(document)) + sum(len(n) + len(v) for n, v in headers)
    document["payload"]["prompt"] += "x" * (REQUEST_BYTES_MAX + by - takes)


def _document(seed: int, number: int) -> dict[str, Any]:
    kind = kind_of(seed, number)
    document: dict[str, Any] = {
        "id": f"c{seed}-{number}",
        "model_name": MODEL,
        "payload": {"prompt": "The with statement", "max_tokens": 4},
        **FIELDS.get(kind, {}),
    }
    if kind in BEHAVIOURS:
        document["payload"]["behaviour"] = kind.value
    if kind is Kind.CONVERSATION:
        document["conversation_id"] = f"c{seed}-talk-{number % CONVERSATIONS}"
    return document
