"""Waiting for the end of what a benchmark has sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from runtime.kafka.connection import Connection
from runtime.settings import Settings
from schemas.errors import OverspillError
from streams.control.probe import Probe

LOOK_S = 0.2


async def drained(
    settings: Settings,
    connection: Connection,
    sent: int,
    within_s: float,
    tell: Callable[[int], None] = lambda _: None,
) -> None:
    """Return when so many requests have been taken and all have finished.

    Raises OverspillError if they have not in time; `tell` is told how many are left.
    """
    probe = Probe(connection, settings.topics, settings.pools)
    give_up_s = time.monotonic() + within_s
    try:
        while True:
            sample, _ = await probe.read()
            left = sum(lag.unfinished for pool in sample.pools.values() for lag in pool)
            left += sent - sample.consumed
            if not left:
                return
            if time.monotonic() > give_up_s:
                raise OverspillError(
                    f"{left} of {sent} requests are still unfinished: lower the load"
                )
            tell(left)
            await asyncio.sleep(LOOK_S)
    finally:
        await probe.close()
