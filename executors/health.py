"""Watches the backend of a running node: probes it in doubt, and keeps work away while it fails.

The shell around the breaker: it has the clock and the probes. What doubt is, is the breaker's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from executors.backends.base import Backend, BackendError
from executors.breaker import Breaker
from executors.dispatcher import Dispatcher
from executors.latency import LatencyWindow
from schemas.errors import OverspillError
from schemas.outcomes import ErrorCategory

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
PROBE_WITHIN_S = 20.0
"""A probe is a few tokens; an engine that needs longer keeps its callers waiting as well."""
PROVE_WITHIN_S = 600.0
"""Golden inputs may be many, and nobody waits for them: the node takes no work meanwhile."""


class _Asked(NamedTuple):
    """A probe or a self-test under way, and the time it was given."""

    what: str
    within_s: float
    answer: asyncio.Future[object]


class HealthWatch:
    """Judges one backend for as long as its node works."""

    def __init__(
        self,
        backend: Backend,
        breaker: Breaker,
        dispatcher: Dispatcher,
        latency: LatencyWindow,
        prove: Callable[[], Awaitable[object]],
        on_change: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            backend: to probe.
            breaker: knows when.
            dispatcher: is given no work while the backend fails.
            latency: what runs usually take.
            prove: runs the golden inputs, before a backend that had failed gets work.
            on_change: called when the node's health has changed.
        """
        self._backend = backend
        self._breaker = breaker
        self._dispatcher = dispatcher
        self._latency = latency
        self._prove = prove
        self._on_change = on_change
        self._said: str | None = None
        self._asked: _Asked | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            if self._asked is not None:
                self._asked.answer.cancel()

    async def _look(self) -> None:
        loop, breaker, dispatcher = asyncio.get_running_loop(), self._breaker, self._dispatcher
        usual = self._latency.read()
        breaker.looked(dispatcher.longest_run_s, usual, dispatcher.hanging, loop.time())
        self._tell()
        if breaker.probe_is_due(loop.time()):
            breaker.probed(await self._why_not(), loop.time())
            self._tell()

    def _tell(self) -> None:
        """Suspend or resume work, and say so, when that has changed."""
        why = self._breaker.unhealthy
        if why == self._said:
            return
        if why is None:
            log.info("the backend is well again")
            self._dispatcher.resume()
        else:
            log.warning("unhealthy: %s", why)
            self._dispatcher.suspend(why)
        self._said = why
        self._on_change()

    async def _why_not(self) -> str | None:
        """Probe; return why the backend cannot be given work, None if it can."""
        why = await self._failing("probe", self._backend.probe, PROBE_WITHIN_S, busy_is_well=True)
        if why is None and self._breaker.unhealthy is not None:
            # What has come back may be another model, or a device that answers nonsense now. That
            # it is busy proves nothing of it.
            why = await self._failing("self-test", self._prove, PROVE_WITHIN_S, busy_is_well=False)
        return why

    async def _failing(
        self,
        what: str,
        ask: Callable[[], Awaitable[object]],
        within_s: float,
        *,
        busy_is_well: bool,
    ) -> str | None:
        """Ask the backend; return how it fails, None if it does not."""
        # One that hangs is waited for again, under its own name, which may be the other one: a
        # second one would hang behind it.
        if self._asked is None or self._asked.answer.done():
            self._asked = _Asked(what, within_s, asyncio.ensure_future(ask()))
        what, said_s, answer = self._asked
        successes = self._breaker.successes
        await asyncio.wait({answer}, timeout=within_s)
        if not answer.done():
            answer.cancel()
            if busy_is_well and self._breaker.successes > successes:
                return None  # it waited its turn behind runs that end
            return f"its {what} does not end within {said_s:g} s"
        try:
            answer.result()
        except asyncio.CancelledError:
            return f"its {what} did not end in time"
        except OverspillError as error:
            cause = error.__cause__
            busy = isinstance(cause, BackendError) and cause.category is ErrorCategory.OVERLOADED
            return None if busy and busy_is_well else str(error)
        except Exception as error:
            log.exception("the %s failed in an unforeseen way", what)
            return f"its {what} raised {type(error).__name__}"
        return None
