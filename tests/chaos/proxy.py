"""A network of ours: what roles say to the broker and hear from it passes here, or does not.

The broker advertises this address on a listener of its own, so whoever begins here stays here. It
knows Kafka's frames, and of what is in them only the request that ends a transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from runtime.ports import LOOPBACK

END_TXN = 26
"""Kafka's number for EndTxn, first thing in a request behind its length."""
HEAD = struct.Struct(">ih")
"""A frame's length and its first two bytes: in a request, which one it is."""
STILL_CUT_S = 0.05


class Weather(NamedTuple):
    """How the network is now.

    Attributes:
        delay_s: each frame waits so long, those behind it too; from and to.
        bytes_per_s: what passes in one direction of one connection; None: all there is.
        cut: nothing passes, and nobody is told.
        hold_s: how long the end of a transaction is held back, by chance; on its way to the broker
            though its sender may have gone meanwhile (KAFKA-17754).
        hold_share: of those ends.
    """

    delay_s: tuple[float, float] = (0.0, 0.0)
    bytes_per_s: float | None = None
    cut: bool = False
    hold_s: tuple[float, float] = (0.0, 0.0)
    hold_share: float = 0.0


FAIR = Weather()


class Proxy:
    """Carries frames between clients and one broker.

    Attributes:
        weather: to be changed at any time.
        held: how many ends of transactions were held back.
    """

    def __init__(self, broker_port: int, draw: random.Random) -> None:
        self.weather = FAIR
        self.held = 0
        self._broker_port = broker_port
        self._draw = draw
        self._carrying: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[None]:
        """Take connections beside the body; all end with it."""
        server = await asyncio.start_server(self._carry, LOOPBACK, port)
        try:
            yield
        finally:
            server.close()
            for task in tuple(self._carrying):
                task.cancel()
            await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                broker, to_broker = await asyncio.open_connection(LOOPBACK, self._broker_port)
            except OSError:
                writer.close()
                return
            ways = [
                asyncio.ensure_future(self._way(reader, to_broker, self._request_waits)),
                asyncio.ensure_future(self._way(broker, writer, self._passes)),
            ]
            try:
                # What a client that has gone had sent is delivered still.
                await asyncio.gather(*ways)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
                for end in (writer, to_broker):
                    end.close()

    async def _way(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        waits: Callable[[int], float],
    ) -> None:
        """Carry frame by frame until the source ends; then end the target."""
        try:
            while True:
                head = await source.readexactly(HEAD.size)
                length, kind = HEAD.unpack(head)
                body = await source.readexactly(length + 4 - HEAD.size)
                await asyncio.sleep(waits(kind))
                if self.weather.bytes_per_s:
                    await asyncio.sleep(length / self.weather.bytes_per_s)
                while self.weather.cut:  # noqa: ASYNC110  a flag that a fault sets, and unsets
                    await asyncio.sleep(STILL_CUT_S)
                target.write(head + body)
                await target.drain()
        except (asyncio.IncompleteReadError, OSError):
            target.close()

    def _passes(self, _: int) -> float:
        return self._draw.uniform(*self.weather.delay_s)

    def _request_waits(self, kind: int) -> float:
        held = kind == END_TXN and self._draw.random() < self.weather.hold_share
        self.held += held
        return self._draw.uniform(*(self.weather.hold_s if held else self.weather.delay_s))
