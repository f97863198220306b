"""Shows the queue of an engine that others use too: a server may be full though its node is not."""

from __future__ import annotations

import asyncio

from executors.backends.base import Backend, BackendError
from executors.meter import Meter

LOOK_EVERY_S = 2.0
"""Often enough for a dashboard; an engine that tells its load with each answer is not asked."""


async def follow_load(backend: Backend, meter: Meter) -> None:
    """Show what the backend says of its queue, until cancelled.

    A look that fails shows nothing new: whether the engine is well is not judged here.
    """
    while True:
        try:
            load = await backend.load()
        except BackendError:
            pass
        else:
            if load is not None:
                meter.engine(load)
        await asyncio.sleep(LOOK_EVERY_S)
