"""The control worker as a process: starts the Faust app on our own loop, and again when it breaks.

Faust's own worker would take signals, logging and the web port; here `runtime.process` has them. An
app that crashed (a broker away for long) is thrown away and a new one is made: what it knew is in
its tables' changelogs and in `control`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import KafkaError
from faust.types.tuples import FutureMessage

from runtime.kafka.connection import Connection
from runtime.kafka.topics import create_topics, describe_topics
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas.errors import OverspillError
from schemas.topics import changelogs
from streams.board.board import Board
from streams.board.follower import Follower
from streams.control.app import create_app
from streams.control.desk import Desk

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Pause before a new app after one that broke."""
STOP_APP_S = 4.0
"""For Faust to leave its group and end its threads; it takes up to 3 s."""
WATCH_S = 1.0
PAUSED_S = 5.0
"""A loop that stood still for this long was most likely put out of its group (session 6 s). Faust
does not always find back by itself: a new app does."""
JOIN_WITHIN_S = 30.0
"""To be assigned and have complete tables; the group needs 6 s at most, the tables a moment."""
REJOIN_WITHIN_S = 12.0
"""The same once it had joined, hence without a slow start. When a second worker joins, Faust at
times never ends the rebalance for the first: routers would hear nothing until they are blind."""
DEAF_S = 30.0
"""Samples are sent and do not come back for this long: an agent stopped, or Faust's consumer."""


async def open_control(
    settings: Settings, connection: Connection, metrics: Metrics
) -> ControlWorker:
    """Return a control worker; raise TopicMismatch or BrokerUnreachable."""
    names = settings.topics
    await describe_topics(connection, names.control_plane)
    return ControlWorker(settings, connection, metrics)


class ControlWorker:
    """One control worker; a second one beside it stands by.

    Attributes:
        board: what its page shows.
    """

    def __init__(self, settings: Settings, connection: Connection, metrics: Metrics) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        self.board = Board(settings.pools, time.time_ns() // 1_000_000)
        self.board.trouble = lambda: self.unready
        self._stopping = asyncio.Event()
        self._desk: Desk | None = None
        self._trouble = "starting"
        self._left_behind = False

    @property
    def unready(self) -> str | None:
        """Return why this worker neither speaks nor stands by; None if it does."""
        return self._trouble if self._desk is None else self._desk.unready(time.monotonic())

    async def run(self) -> None:
        """Serve until stopped; a broker that is away is waited for."""
        # Each rebalance and each outage fills pages there; what matters of it we say ourselves.
        for noisy in ("faust", "mode"):
            logging.getLogger(noisy).setLevel(logging.ERROR)
        asyncio.get_running_loop().set_exception_handler(_unless_unsent)
        follower = Follower(self._connection, self._settings.topics, self.board, self._metrics)
        following = asyncio.ensure_future(follower.run())
        following.add_done_callback(_say_why)
        try:
            await self._serve_again_and_again()
        finally:
            following.cancel()
            await asyncio.wait({following})

    async def _serve_again_and_again(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._serve()
            except (OverspillError, KafkaError, OSError, asyncio.TimeoutError) as error:
                trouble = str(error) or type(error).__name__
                if trouble != self._trouble:
                    self._trouble = trouble
                    log.warning("control waits: %s", trouble)
            if self._left_behind and not self._stopping.is_set():
                # Its thread may still hold the partitions: a new app beside it would wait for ever.
                raise OverspillError("Faust does not stop: this process ends, start it again")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), AGAIN_S)

    async def stop(self, within_s: float) -> None:
        """Stop publishing at once and leave the group; takes less than 5 s, whatever the bound."""
        del within_s
        self._stopping.set()

    async def _serve(self) -> None:
        names = self._settings.topics
        # Faust silently ignores a topic that is absent at its start. It would make the changelogs
        # itself, but not wait until they can be written: then no table works for 5 minutes.
        placed = await describe_topics(self._connection, names.control_plane)
        replicas = placed[names.nodes].replicas
        await create_topics(self._connection, changelogs(names), replicas=replicas)
        with tempfile.TemporaryDirectory(prefix="overspill-control-") as directory:
            app, desk = create_app(
                self._settings,
                self._connection,
                self._metrics,
                self.board,
                replicas=replicas,
                data_dir=Path(directory),
            )
            self._desk = desk
            try:
                await self._until_stopped(app, desk)
            finally:
                self._desk = None
                desk.leave_duty()
                self._left_behind = not await _stop(app)

    async def _until_stopped(self, app: faust.App, desk: Desk) -> None:
        """Run the app; raise what it crashed with, or what is wrong with it."""
        starting = asyncio.ensure_future(app.start())
        waits = {
            asyncio.ensure_future(app.wait_until_stopped()),
            asyncio.ensure_future(self._stopping.wait()),
            asyncio.ensure_future(_watch(desk)),
        }
        try:
            done, _ = await asyncio.wait({starting, *waits}, return_when=asyncio.FIRST_COMPLETED)
            if starting in done:
                starting.result()
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if app.crashed:
                raise KafkaError(f"the Faust app crashed: {app.crash_reason!r}")
        finally:
            for task in (starting, *waits):
                task.cancel()
            await asyncio.wait({starting, *waits})


def _say_why(following: asyncio.Future[None]) -> None:
    """Log what ended the follower of the board: the page is old then, the worker goes on."""
    if not following.cancelled():
        log.error("the page shows no more decisions", exc_info=following.exception())


def _unless_unsent(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what nobody caught, but no changelog record that was not sent: the next one says it.

    Faust drops the future of such a record, and asyncio would print a traceback for each.
    """
    if not isinstance(context.get("future"), FutureMessage):
        loop.default_exception_handler(context)


async def _watch(desk: Desk) -> None:
    """Raise KafkaError when the app is to be thrown away though it did not crash."""
    last_s = joined_s = time.monotonic()
    within_s = JOIN_WITHIN_S
    while True:
        await asyncio.sleep(WATCH_S)
        now_s = time.monotonic()
        if now_s - last_s > PAUSED_S:
            raise KafkaError(f"this process stood still for {now_s - last_s:.0f} s: joining anew")
        if desk.joined:
            joined_s, within_s = now_s, REJOIN_WITHIN_S
        elif now_s - joined_s > within_s:
            raise KafkaError(f"not assigned within {within_s:g} s: joining anew")
        if desk.deaf_s(now_s) > DEAF_S:
            raise KafkaError(f"no record of lag comes back for {DEAF_S:g} s: joining anew")
        last_s = now_s


async def _stop(app: faust.App) -> bool:
    """Stop the app; return whether it did within its time."""
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.wait({stopping}, timeout=STOP_APP_S)
    if not stopping.done():
        log.warning("Faust did not stop within %s s", STOP_APP_S)
        stopping.cancel()
        return False
    if stopping.exception() is not None:
        log.warning("Faust stopped with %r", stopping.exception())
    return True
