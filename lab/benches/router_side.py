"""The router as one side of `bench_router`."""

from __future__ import annotations

import asyncio
import time

from lab.instruments.side import be_side
from lab.instruments.steady import Steady
from runtime.connection import connection_of
from runtime.memory import collect_by_the_clock, give_large_buffers_back
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas.metrics import router as declared
from streams.router.service import open_router

POLL_S = 0.01
"""Far less than a run takes; a hundred looks a second cost the router next to nothing."""


async def route_all(settings: Settings, records: int) -> Steady:
    """Route `records` records; return how fast the last three quarters went."""
    collect_by_the_clock()  # both as every router process does
    give_large_buffers_back()
    metrics = Metrics("router", "bench")
    router = await open_router(settings, connection_of(settings), metrics)
    work = asyncio.ensure_future(router.run())
    consumed = metrics.counter(declared.CONSUMED, "requests")
    progress = Steady(records)
    while not progress.complete:
        if work.done():
            await work
        await asyncio.sleep(POLL_S)
        (family,) = consumed.collect()
        progress.has_done(int(family.samples[0].value), time.monotonic())
    await router.stop(5.0)
    await work
    return progress


if __name__ == "__main__":
    be_side(route_all)
