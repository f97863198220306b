"""SIGTERM in the middle of a batch: what has begun ends, offsets are committed, exit code 0."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import COMMANDS, Stack

ROUNDS = 2
WORKS_S = (0.5, 1.5)


async def each_role(stack: Stack, rounds: int = ROUNDS) -> None:
    """Ask each role to stop while it has work in hand, and start it again."""
    roles = [role for _ in range(stack.times(rounds)) for role in COMMANDS]
    stack.draw.shuffle(roles)
    for role in roles:
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await stack.terminate(role)
        await stack.restart(role)
