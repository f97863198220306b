"""Kill -9 of whatever chance picks, at moments that chance picks."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import COMMANDS, Stack

KILLS = 12
"""A run; each takes about five seconds."""
PAUSE_S = (0.2, 1.5)
AWAY_S = (0.0, 2.0)
"""How long a role stays away: often back within its session (6 s), and its partitions wait."""


async def at_random(stack: Stack) -> None:
    """Kill one role after another while it has work in hand, and start each again."""
    for _ in range(KILLS):
        await asyncio.sleep(stack.draw.uniform(*PAUSE_S))
        role = stack.draw.choice(tuple(COMMANDS))
        await stack.kill(role)
        await asyncio.sleep(stack.draw.uniform(*AWAY_S))
        await stack.restart(role)
