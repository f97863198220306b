"""How long a condition has lasted: since this worker saw it first."""

from __future__ import annotations

from streams.board.board import Board
from streams.board.condition import Condition
from streams.board.conditions import conditions

START_MS = 15_000
"""What is there when a worker has just begun may have been there before."""


def tick(board: Board, now_ms: int, now_s: float) -> None:
    """Add what there is now to what the board remembers; called about once a second."""
    board.tick(now_ms, now_s)
    board.spells.saw((kind_of(one) for one in conditions(board, now_ms, now_s)), now_ms)


def since_ms(one: Condition, board: Board, now_ms: int) -> int:
    """Return since when, in epoch ms, a condition has lasted."""
    if one.for_s is not None:
        return now_ms - round(one.for_s * 1000)
    return min(now_ms, board.spells.begun_ms(kind_of(one), now_ms))


def maybe_longer(one: Condition, since: int, board: Board) -> bool:
    """Return whether it may have begun before this worker could see it."""
    return one.for_s is None and since < board.since_ms + START_MS


def kind_of(one: Condition) -> str:
    """Return what stays the same of a condition while it lasts."""
    return one.kind or one.title
