"""The broker's disk is full: it dies of that, gets room and goes on."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from runtime.kafka.topics import create_topics
from schemas.errors import OverspillError
from schemas.topics import MIB, RETENTION_MS, Topic
from tests.chaos.stack import Stack

TIMES = 2
WORKS_S = (4.0, 6.0)
BLOCK = 1 << 16
FILLS_S = 2.0
"""A tmpfs of some hundred MB is full after this."""


async def full(stack: Stack) -> None:
    """Fill the disk under load until the broker ends, make room and start it again."""
    filler = stack.cluster.folder.parent / "filler"
    for number in range(stack.times(TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        filling = asyncio.ensure_future(_fill(filler))
        await asyncio.sleep(FILLS_S)
        # It dies of what it writes: of this at the latest.
        topic = Topic(
            f"{stack.system.settings.prefix}no-room-{number}", 1, "delete", MIB, RETENTION_MS
        )
        with contextlib.suppress(OverspillError):
            await create_topics(stack.system.connection, [topic])
        await stack.cluster.ended()
        filling.cancel()
        await asyncio.wait([filling])  # a file that is open keeps its room
        filler.unlink()
        await stack.cluster.start()
        await stack.recovers()


async def _fill(filler: Path) -> None:
    """Take every block that is free, also those that come free, until cancelled."""
    with filler.open("wb", 0) as file:
        while True:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(BLOCK))
            await asyncio.sleep(0.05)
