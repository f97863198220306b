"""SIGSTOP of whatever chance picks until others have taken over, then SIGCONT: a zombie wakes."""

from __future__ import annotations

import asyncio

from tests.chaos.faults.kill import SIDES
from tests.chaos.stack import Stack

PAUSES = 7
"""A run and side; each takes about a quarter of a minute."""
BEYOND_SESSION_S = (7.0, 10.0)
"""Sessions last 6 s: then another member, or nobody, has the partitions."""
AWAKE_S = 2.0
"""Two heartbeats and more: what the zombie still writes, it has tried by then."""


async def beyond_the_session(stack: Stack) -> None:
    """Stop one role of each side after another at work, and wake each when it was given up."""
    await asyncio.gather(*(_one_side(stack, roles) for roles in SIDES))


async def _one_side(stack: Stack, roles: tuple[str, ...]) -> None:
    for _ in range(stack.times(PAUSES)):
        role = stack.draw.choice(roles)
        await stack.pause(role, stack.draw.uniform(*BEYOND_SESSION_S))
        await asyncio.sleep(AWAKE_S)
