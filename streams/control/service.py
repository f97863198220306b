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

import faust
from aiokafka.errors import KafkaError

from runtime.kafka.connection import Connection
from runtime.kafka.topics import describe_topics
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas.errors import OverspillError
from streams.control.app import create_app
from streams.control.desk import Desk

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Pause before a new app after one that broke."""
STOP_APP_S = 4.0
"""For Faust to leave its group and end its threads; it takes up to 3 s. Then it is left to die with
the process: nothing it holds needs more."""


async def open_control(
    settings: Settings, connection: Connection, metrics: Metrics
) -> ControlWorker:
    """Return a control worker; raise TopicMismatch or BrokerUnreachable."""
    names = settings.topics
    await describe_topics(connection, (names.nodes, names.lag, names.control))
    return ControlWorker(settings, connection, metrics)


class ControlWorker:
    """One control worker; a second one beside it stands by."""

    def __init__(self, settings: Settings, connection: Connection, metrics: Metrics) -> None:
        self._settings = settings
        self._connection = connection
        self._metrics = metrics
        self._stopping = asyncio.Event()
        self._desk: Desk | None = None
        self._trouble = "starting"

    @property
    def unready(self) -> str | None:
        """Return why this worker neither speaks nor stands by; None if it does."""
        return self._trouble if self._desk is None else self._desk.unready(time.monotonic())

    async def run(self) -> None:
        """Serve until stopped; a broker that is away is waited for."""
        # Each rebalance fills pages there; what matters of it we say ourselves.
        for noisy in ("faust", "mode"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        while not self._stopping.is_set():
            try:
                await self._serve()
            except (OverspillError, KafkaError, OSError, asyncio.TimeoutError) as error:
                self._trouble = str(error) or type(error).__name__
                log.warning("control waits: %s", self._trouble)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), AGAIN_S)

    async def stop(self, within_s: float) -> None:
        """Stop publishing at once and leave the group; takes less than 5 s, whatever the bound."""
        del within_s
        self._stopping.set()

    async def _serve(self) -> None:
        names = self._settings.topics
        # Faust silently ignores a topic that is absent at its start.
        placed = await describe_topics(self._connection, (names.nodes, names.lag, names.control))
        with tempfile.TemporaryDirectory(prefix="overspill-control-") as directory:
            app, desk = create_app(
                self._settings,
                self._connection,
                self._metrics,
                replicas=placed[names.nodes].replicas,
                data_dir=Path(directory),
            )
            self._desk = desk
            try:
                await self._until_stopped(app)
            finally:
                self._desk = None
                desk.leave_duty()
                await _stop(app)

    async def _until_stopped(self, app: faust.App) -> None:
        """Run the app; raise what it crashed with."""
        starting = asyncio.ensure_future(app.start())
        crashed = asyncio.ensure_future(app.wait_until_stopped())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await asyncio.wait({crashed, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if app.crashed and not self._stopping.is_set():
                raise KafkaError(f"the Faust app crashed: {app.crash_reason!r}")
        finally:
            for task in (starting, crashed, stopping):
                task.cancel()
            await asyncio.wait({starting, crashed, stopping})


async def _stop(app: faust.App) -> None:
    stopped = asyncio.ensure_future(app.stop())
    await asyncio.wait({stopped}, timeout=STOP_APP_S)
    if not stopped.done():
        log.warning("Faust did not stop within %s s: left behind", STOP_APP_S)
        stopped.cancel()
    elif stopped.exception() is not None:
        log.warning("Faust stopped with %r", stopped.exception())
