"""What operators order: drain a node, pause a pool, freeze the threshold; and how it is ended.

One record of topic `orders` for each thing an order can stand on: the last one there counts.
Orders are absolute, never increments: one that is read twice changes nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import StringConstraints

from schemas.errors import FormatError
from schemas.message import Message, decode

NODE = "node/"
"""What an order on a node is about: this and the node's id."""
POOL = "pool/"
THRESHOLD = "threshold"

WHO_CHARS_MAX = 64
WHY_CHARS_MAX = 200
"""Bounded, since every router reads them with every snapshot."""

_PRINTABLE = r"^[^\p{C}\p{Zl}\p{Zp}]*$"  # shown on terminals and in logs, on one line
Who = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=WHO_CHARS_MAX, pattern=_PRINTABLE
    ),
]
Why = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=WHY_CHARS_MAX, pattern=_PRINTABLE)
]


class Verb(str, Enum):
    """What is ordered."""

    DRAIN = "drain"
    """Of a node: it gets nothing new and finishes what it has."""
    PAUSE = "pause"
    """Of a pool: it is down for the policy."""
    FREEZE = "freeze"
    """Of the threshold: it is held, at a value or where it is."""
    RESUME = "resume"
    """Ends the order on a node or a pool."""
    RELEASE = "release"
    """Ends the freeze."""


class Order(Message):
    """An operator's order, and who gave it, why and when."""

    version: int = 1
    what: Verb
    who: Who
    why: Why = ""
    at_ms: int
    threshold: int | None = None
    """With `freeze`: the value to hold; null holds it where it is."""

    @property
    def in_words(self) -> str:
        """Return it on one line: `drained by ana: new firmware`."""
        held = "" if self.threshold is None else f" at {self.threshold}"
        done = f"{_DONE[self.what]}{held} by {self.who}"
        return f"{done}: {self.why}" if self.why else done


_DONE = {
    Verb.DRAIN: "drained",
    Verb.PAUSE: "paused",
    Verb.FREEZE: "frozen",
    Verb.RESUME: "resumed",
    Verb.RELEASE: "released",
}

_STANDS = {NODE: Verb.DRAIN, POOL: Verb.PAUSE, THRESHOLD: Verb.FREEZE}
_ENDS = {NODE: Verb.RESUME, POOL: Verb.RESUME, THRESHOLD: Verb.RELEASE}


def read_order(key: bytes | None, value: bytes | None) -> tuple[str, Order | None]:
    """Return what a record of `orders` is about (`node/gpu-1`) and the order that stands on it now.

    That is None if the record ends one: a resume, a release, or no value at all.

    Raises:
        FormatError: it is no order.
    """
    try:
        about = (key or b"").decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"the key {key!r} is no text") from error
    kind = next((kind for kind in _STANDS if about.startswith(kind)), None)
    if kind is None or (about == kind) != (kind == THRESHOLD):
        raise FormatError(f"the key {about!r} names no node, no pool and not the threshold")
    if value is None:
        return about, None
    order = decode(Order, value)
    if order.what is _ENDS[kind]:
        return about, None
    if order.what is not _STANDS[kind]:
        raise FormatError(f"an order to {order.what.value} stands under the key {about!r}")
    return about, order
