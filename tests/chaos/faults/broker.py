"""The broker: restarted, killed, away for minutes."""

from __future__ import annotations

import asyncio

from tests.chaos.stack import COMMANDS, Stack

TIMES = 3
WORKS_S = (4.0, 8.0)
AWAY_S = 180.0


async def restarted(stack: Stack) -> None:
    """Tell the broker to stop (SIGTERM) under load, and start it again."""
    for _ in range(stack.times(TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await stack.cluster.terminate()
        await stack.cluster.start()
        await stack.recovers()


async def killed(stack: Stack) -> None:
    """Kill the broker under load, and start it again."""
    for _ in range(stack.times(TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await stack.cluster.kill()
        await stack.cluster.start()
        await stack.recovers()


async def killed_with_all(stack: Stack) -> None:
    """Kill all roles and the broker in one moment, and start everything again."""
    for _ in range(stack.times(TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await stack.kill_all()
        await stack.cluster.kill()
        await stack.cluster.start()
        await stack.restart(*COMMANDS)


async def away(stack: Stack) -> None:
    """Leave the roles without a broker for three minutes."""
    await asyncio.sleep(WORKS_S[0])
    await stack.cluster.kill()
    await asyncio.sleep(AWAY_S * stack.scale)
    await stack.cluster.start()
    await stack.recovers()
