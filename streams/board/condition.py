"""One thing that an operator should know, and the words it is said in."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["bad", "warn", "note", "good"]


class Condition(NamedTuple):
    """One thing that an operator should know."""

    level: Level
    name: str
    title: str
    meaning: str
    remedy: str = ""


def many(count: int, one: str, more: str) -> str:
    """Return the count with the word for one or for more."""
    return f"{count:,} {one if count == 1 else more}"
