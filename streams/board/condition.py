"""One thing that an operator should know, and the words it is said in."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["bad", "warn", "note", "good"]


class Condition(NamedTuple):
    """One thing that an operator should know.

    Attributes:
        name: of the alert that says the same; empty without one.
        remedy: what to do; commands stand between backticks.
        kind: the same while it lasts though its title changes; empty where the title stays.
        for_s: how long it has lasted, where that is known better than by having seen it begin.
    """

    level: Level
    name: str
    title: str
    meaning: str
    remedy: str = ""
    kind: str = ""
    for_s: float | None = None


def many(count: int, one: str, more: str) -> str:
    """Return the count with the word for one or for more."""
    return f"{count:,} {one if count == 1 else more}"
