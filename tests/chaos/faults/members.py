"""A rebalance storm: somebody joins or leaves every five seconds."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import Stack

TIMES = 12
EVERY_S = 5.0
GUESTS = {"gpu-3": "gpu-1", "router-3": "router-1"}
"""Who comes and goes, and as whom: members without a name of their own, that leave in order."""


async def join_and_leave(stack: Stack) -> None:
    """Let a node or a router join, or leave if it is there, every five seconds."""
    roles = stack.system.roles
    for _ in range(stack.times(TIMES)):
        guest = stack.draw.choice(tuple(GUESTS))
        if guest in roles and roles[guest].ended is None:
            await stack.terminate(guest)
        else:
            stack.start(guest, like=GUESTS[guest], instance_id=None)
            await stack.until_ready(guest)
        await asyncio.sleep(EVERY_S)
    for guest in GUESTS.keys() & roles.keys():
        if roles[guest].ended is None:
            await stack.terminate(guest)
    await stack.recovers()
