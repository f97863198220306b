"""Topics that change under load."""

from __future__ import annotations

import asyncio

from runtime.kafka.topics import grow_topics
from schemas.topics import catalogue
from tests.chaos.stack import PARTITIONS, Stack

STEPS = 2
WORKS_S = 5.0
"""From growth to work in every added partition it takes up to 6 s."""


async def grow(stack: Stack, steps: int = STEPS) -> None:
    """Add a partition to every topic, twice."""
    settings = stack.system.settings
    for step in range(1, stack.times(steps) + 1):
        await asyncio.sleep(WORKS_S)
        declared = catalogue(settings.topics, settings.pools, PARTITIONS + step)
        assert await grow_topics(stack.system.connection, declared)
    await stack.recovers()
    await asyncio.sleep(WORKS_S)
