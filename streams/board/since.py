"""How long a condition has lasted: since this worker saw it first."""

from __future__ import annotations

from streams.board.board import Board
from streams.board.condition import Condition
from streams.board.conditions import conditions

START_MS = 15_000
"""What is there when a worker has just begun to look may have been there before."""
_FLEET = "the fleet is seen"
"""The spell of seeing it: who stood by, or had no Kafka, does not know how it was meanwhile."""


def look(board: Board, now_ms: int, now_s: float) -> None:
    """Add what there is now to what the board remembers; called about once a second."""
    board.remember(now_ms, now_s)
    kinds = [kind_of(one) for one in conditions(board, now_ms, now_s)]
    if board.sees_fleet(now_s):
        kinds.append(_FLEET)
    board.spells.saw(kinds, now_ms)


def since_ms(one: Condition, board: Board, now_ms: int) -> int:
    """Return since when, in epoch ms, a condition has lasted."""
    if one.for_s is not None:
        return now_ms - round(one.for_s * 1000)
    return min(now_ms, board.spells.begun_ms(kind_of(one), now_ms))


def maybe_longer(one: Condition, board: Board, now_ms: int, now_s: float) -> bool:
    """Return whether it may have begun before this worker could see it."""
    looks_ms = board.since_ms
    if board.sees_fleet(now_s):
        looks_ms = board.spells.begun_ms(_FLEET, now_ms)
    return one.for_s is None and since_ms(one, board, now_ms) < looks_ms + START_MS


def kind_of(one: Condition) -> str:
    """Return what stays the same of a condition while it lasts."""
    return one.kind or one.title
