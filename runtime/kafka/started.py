"""A client of aiokafka that is started for a while, and stopped whatever happens.

Knows neither consumers nor producers, only that both start and stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol

_CONNECTING_S = 2.0
"""Who is cancelled while it connects may finish that, so that aiokafka can close the connection."""


class _Client(Protocol):
    async def start(self) -> Any: ...

    async def stop(self) -> Any: ...


@asynccontextmanager
async def started(client: _Client) -> AsyncGenerator[None, None]:
    """Start the client, and stop it in the end; also one that is cancelled while it connects."""
    starting = asyncio.ensure_future(client.start())
    try:
        await asyncio.shield(starting)
        yield
    finally:
        if not starting.done():
            await asyncio.wait([starting], timeout=_CONNECTING_S)
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        await client.stop()
