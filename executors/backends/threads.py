"""Runs calls of an engine in this process, each on a thread; a cancelled one ends first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


async def run_on(
    workers: ThreadPoolExecutor, run: Callable[[], Answer], stop: Callable[[], None]
) -> Answer:
    """Return what `run` returns on a thread; when cancelled `stop` it, and end when it has ended.

    However often we are cancelled: until the thread has ended the device is not free.
    """
    work = asyncio.get_running_loop().run_in_executor(workers, run)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop()
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue
        work.exception()
        raise
