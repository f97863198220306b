"""The broker's disk is full: it dies of that, gets room and goes on."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.chaos.stack import Stack

TIMES = 2
WORKS_S = (4.0, 6.0)
BLOCK = 1 << 16


async def full(stack: Stack) -> None:
    """Fill the disk under load until the broker ends, make room and start it again."""
    filler = stack.cluster.folder.parent / "filler"
    for _ in range(stack.times(TIMES)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        filling = asyncio.ensure_future(_fill(filler))
        await stack.cluster.ended()
        filling.cancel()
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
