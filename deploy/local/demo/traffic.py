"""What the demo sends and when: plain data, the same each time but for the ids' prefix.

First one of each kind; when those have ended, a burst that the GPU cannot take, so that work
overflows, and a mixed stretch in which the queues empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from deploy.local.fleet import MODEL, SMALL_MODEL
from deploy.local.tiny_model import ADAPTERS
from schemas.document import to_json

PROMPTS = (
    "The with statement",
    "A class definition",
    "The try statement",
    "An assignment expression",
    "The import statement",
    "A dictionary display",
    "The for statement",
    "Function definitions",
    "The assert statement",
    "Boolean operations",
)
"""The model was trained on the reference of a programming language: it can go on with these."""

SAME_PROMPT = {"prompt": PROMPTS[0], "max_tokens": 32, "temperature": 0}
"""Of every request for an adapter, so that what they make of it can be compared."""

CALM_S = 1.0
BURST_S = 5.0
MIXED_S = 3.0
"""Lengths of the stretches, seconds."""
BURST_BATCH, BURST_NORMAL, BURST_REALTIME = 90, 35, 8
"""25 a second beside the realtime ones; the made-up GPU finishes 12 (2 slots of 80 ms, one of them
kept for express work)."""
LORA_MIXED = 9


class Kind(str, Enum):
    """What a request of the demo is an example of."""

    REALTIME = "realtime"
    STRICT_SLO = "strict SLO"
    LORA = "LoRA"
    SMALL_MODEL = "small model"
    NORMAL = "normal"
    BATCH = "batch"
    EXPIRED = "expired"
    MALFORMED = "malformed"


class Shot(NamedTuple):
    """One record to send.

    Attributes:
        at_s: seconds after the first of the same part.
    """

    at_s: float
    kind: Kind
    key: bytes
    value: bytes | None


_FIELDS: dict[Kind, dict[str, Any]] = {
    Kind.REALTIME: {"priority": "realtime"},
    Kind.STRICT_SLO: {"latency_slo_ms": 45},
    Kind.LORA: {"has_lora": True, "latency_slo_ms": 2000, "payload": SAME_PROMPT},
    Kind.SMALL_MODEL: {"model_name": SMALL_MODEL, "latency_slo_ms": 2000},
    Kind.NORMAL: {"latency_slo_ms": 3000},
    Kind.BATCH: {"priority": "batch", "latency_slo_ms": 15000},
    Kind.EXPIRED: {"expires_after_ms": 1000},
}


def opening(run: str, now_ms: int) -> tuple[Shot, ...]:
    """Return one of each kind, without hurry.

    Args:
        run: in front of every id, so that two runs on the same broker differ.
        now_ms: epoch ms.
    """
    kinds = (Kind.REALTIME, Kind.STRICT_SLO, Kind.SMALL_MODEL, Kind.NORMAL, Kind.BATCH)
    calm = [
        _shot(run, kind, "first", CALM_S * number / len(kinds)) for number, kind in enumerate(kinds)
    ]
    calm += [_shot(run, Kind.LORA, adapter, CALM_S / 2, adapter=adapter) for adapter in ADAPTERS]
    minute_ago = now_ms - 60_000
    late = [_shot(run, Kind.EXPIRED, f"{n}", CALM_S, arrived_at=minute_ago) for n in range(3)]
    return (*calm, *late)


def crowd(run: str) -> tuple[Shot, ...]:
    """Return the rest: the burst, then the mixture, with what is malformed in between."""
    made = [
        *_spread(run, Kind.BATCH, BURST_BATCH, 0.0, BURST_S),
        *_spread(run, Kind.NORMAL, BURST_NORMAL, 0.0, BURST_S),
        *_spread(run, Kind.REALTIME, BURST_REALTIME, 0.0, BURST_S),
        *_mixed(run),
        *_malformed(run, BURST_S),
    ]
    return tuple(sorted(made, key=lambda shot: shot.at_s))


def _mixed(run: str) -> Iterator[Shot]:
    for kind, count in (
        (Kind.REALTIME, 8),
        (Kind.STRICT_SLO, 5),
        (Kind.SMALL_MODEL, 8),
        (Kind.NORMAL, 10),
        (Kind.BATCH, 10),
    ):
        yield from _spread(run, kind, count, BURST_S, MIXED_S)
    # Three adapters in turn: a node starts those of one after another.
    for number in range(LORA_MIXED):
        at_s = BURST_S + MIXED_S * number / LORA_MIXED
        adapter = list(ADAPTERS)[number % len(ADAPTERS)]
        yield _shot(run, Kind.LORA, f"{adapter}-{number}", at_s, adapter=adapter)


def _spread(run: str, kind: Kind, count: int, begin_s: float, length_s: float) -> Iterator[Shot]:
    for number in range(count):
        yield _shot(run, kind, f"{begin_s:g}-{number}", begin_s + length_s * number / count)


def _shot(run: str, kind: Kind, name: str, at_s: float, **more: Any) -> Shot:
    identity = f"{run}-{kind.value.replace(' ', '-').lower()}-{name}"
    prompt = PROMPTS[sum(identity.encode()) % len(PROMPTS)]
    document = {
        "id": identity,
        "model_name": MODEL,
        "payload": {"prompt": prompt, "max_tokens": 12},
        **_FIELDS[kind],
        **more,
    }
    return Shot(at_s, kind, identity.encode(), to_json(document))


def _malformed(run: str, at_s: float) -> Iterator[Shot]:
    """Yield one record for each way in which a record can fail to be a request."""
    good = {"id": f"{run}-twice", "model_name": MODEL, "payload": {"prompt": PROMPTS[0]}}
    values = (
        b'{"id": "cut sho',
        b"\xff\xfe not text",
        None,
        to_json({**good, "id": f"{run}-hurry", "priority": "urgent"}),
        to_json({"id": f"{run}-no-model", "payload": {}}),
        to_json({**good, "id": f"{run}-newer", "version": 2}),
        b'{"payload": ' + b"[" * 300 + b"]" * 300 + b"}",
    )
    for number, value in enumerate(values):
        yield Shot(at_s + number / 10, Kind.MALFORMED, f"{run}-malformed-{number}".encode(), value)
    # The same id with other content: the first is good, the second contradicts it.
    key = f"{run}-twice".encode()
    other = {**good, "payload": {"prompt": PROMPTS[1]}}
    yield Shot(at_s, Kind.NORMAL, key, to_json(good))
    yield Shot(at_s + 1.0, Kind.MALFORMED, key, to_json(other))
