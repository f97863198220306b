"""Kill -9: of whatever chance picks at moments that chance picks, or of everything at once."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import COMMANDS, Stack

KILLS = 24
"""A run and side; each takes about five seconds."""
SIDES = (("control", "router-1", "router-2"), ("gpu-1", "gpu-2", "cpu-1", "npu-1"))
"""What is killed side by side: the next death does not wait for the first to be over."""
PAUSE_S = (0.2, 1.5)
AWAY_S = (0.0, 2.0)
"""How long a role stays away: often back within its session (6 s), and its partitions wait."""
WORKS_S = (3.0, 6.0)
ALL_TIMES = 4


async def at_random(stack: Stack) -> None:
    """Kill one role of each side after another while it has work in hand, and start it again."""
    await asyncio.gather(*(_one_side(stack, roles) for roles in SIDES))


async def everything(stack: Stack) -> None:
    """Kill all roles in one moment, and start all again."""
    for _ in range(stack.times(ALL_TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await stack.kill_all()
        await stack.restart(*COMMANDS)


async def _one_side(stack: Stack, roles: tuple[str, ...]) -> None:
    for _ in range(stack.times(KILLS)):
        await asyncio.sleep(stack.draw.uniform(*PAUSE_S))
        role = stack.draw.choice(roles)
        await stack.kill(role)
        await asyncio.sleep(stack.draw.uniform(*AWAY_S))
        await stack.restart(role)
