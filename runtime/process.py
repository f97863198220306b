"""Running one role as a process: loop, signals, health endpoint, a bounded stop.

Knows no role; a role is an object that runs, says why it is not ready, and can be told to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeVar

import uvloop
from aiohttp import web

from runtime.memory import collect_by_the_clock, give_large_buffers_back
from runtime.metrics import Metrics
from runtime.settings import Settings
from runtime.web import TICK_S, Heartbeat, WebServer

log = logging.getLogger("overspill")

STOP_WITHIN_S = 7.0
"""For a role to finish what it has begun."""
GIVE_UP_AFTER_S = 10.0
"""From SIGTERM to the end, whatever hangs: 15 s is what we promise of a whole stack."""
COLLECT_EVERY_S = 60.0
"""How often cycles are collected. Nearly all objects end by reference count; left to itself the
collector looks at each record's window entry and takes a fifth of a router's time."""

T = TypeVar("T")


class Role(Protocol):
    """A long-running part of the system."""

    @property
    def unready(self) -> str | None:
        """Return why it cannot work now; None when it can."""

    async def run(self) -> None:
        """Work until stopped; raise what is fatal."""

    async def stop(self, within_s: float) -> None:
        """Finish what has begun within the bound, and make `run` return."""


async def run_role(
    role: Role, settings: Settings, metrics: Metrics, routes: Iterable[web.RouteDef] = ()
) -> None:
    """Run the role with its health endpoint until it ends or SIGINT or SIGTERM asks it to.

    `routes` are of its own pages.
    """
    collect_by_the_clock()
    give_large_buffers_back()
    heartbeat = Heartbeat()
    server = WebServer(settings.web, metrics, heartbeat, lambda: role.unready, routes)
    await server.open()
    log.info("%s serves metrics and health at %s", metrics.role, server.url)
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    work = asyncio.ensure_future(role.run())
    stopping = asyncio.ensure_future(asked.wait())
    beating = asyncio.ensure_future(_beat(heartbeat))
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            log.info("%s stops: finishing what has begun", metrics.role)
            await _stopped(role, work)
        await work
    finally:
        for task in (stopping, beating):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await server.close()


def run_loop(main: Callable[[], Awaitable[T]]) -> T:
    """Return what the coroutine returns, run on uvloop."""

    async def _main() -> T:
        return await main()

    return uvloop.run(_main())


async def _stopped(role: Role, work: asyncio.Future[None]) -> None:
    """Let the role stop; if it does not, end the process: a broker that is away never answers."""
    stopping = asyncio.ensure_future(role.stop(STOP_WITHIN_S))
    await asyncio.wait({work}, timeout=GIVE_UP_AFTER_S)
    if not work.done():
        log.warning("gave up waiting: what is not committed will be done again by its next owner")
        logging.shutdown()
        os._exit(0)
    await stopping


async def _beat(heartbeat: Heartbeat) -> None:
    loop = asyncio.get_running_loop()
    collect_at = loop.time() + COLLECT_EVERY_S
    while True:
        heartbeat.beat()
        if loop.time() >= collect_at:
            gc.collect()
            collect_at = loop.time() + COLLECT_EVERY_S
        await asyncio.sleep(TICK_S)
