"""Turns: calls of one kind run together, and kinds take turns in the order in which they came.

For an engine that computes together only what is of one kind and goes on with the kind that it has
begun: beside steady generation, an embedding would never be computed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class Turns:
    """Whose turn it is; a call waits for those that run and for one turn of each other kind."""

    def __init__(self) -> None:
        self._kind: Hashable = None
        self._running = 0
        self._waiting: deque[tuple[Hashable, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, kind: Hashable) -> AsyncIterator[None]:
        """Wait for the kind's turn and be part of it."""
        if self._running == 0 or (kind == self._kind and not self._waiting):
            self._kind = kind
            self._running += 1
        else:
            await self._its_turn(kind)
        try:
            yield
        finally:
            self._leave()

    async def _its_turn(self, kind: Hashable) -> None:
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append((kind, admitted))
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._admit()  # those behind it may have waited for it alone
            else:
                self._leave()
            raise

    def _leave(self) -> None:
        self._running -= 1
        self._admit()

    def _admit(self) -> None:
        """Begin the turn of who has waited longest, if none is going on or it is of that kind."""
        # Who was cancelled may not have taken note yet: nobody else waits for him.
        self._waiting = deque(one for one in self._waiting if not one[1].cancelled())
        if not self._waiting or (self._running and self._waiting[0][0] != self._kind):
            return
        self._kind = self._waiting[0][0]
        left: deque[tuple[Hashable, asyncio.Future[None]]] = deque()
        for kind, admitted in self._waiting:
            if kind == self._kind:
                self._running += 1
                admitted.set_result(None)
            else:
                left.append((kind, admitted))
        self._waiting = left
