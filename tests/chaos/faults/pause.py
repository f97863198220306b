"""SIGSTOP of whatever chance picks until others have taken over, then SIGCONT: a zombie wakes."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import COMMANDS, Stack

PAUSES = 3
"""A run; each takes about a quarter of a minute."""
BEYOND_SESSION_S = (7.0, 10.0)
"""Sessions last 6 s: then another member, or nobody, has the partitions."""
AWAKE_S = 2.0
"""Two heartbeats and more: what the zombie still writes, it has tried by then."""


async def beyond_the_session(stack: Stack) -> None:
    """Stop one role after another while it has work in hand, and wake each when it was given up."""
    for _ in range(PAUSES):
        role = stack.draw.choice(tuple(COMMANDS))
        await stack.pause(role, stack.draw.uniform(*BEYOND_SESSION_S))
        await asyncio.sleep(AWAKE_S)
