"""Watches the backend of a running node: probes it in doubt, and keeps work away while it fails.

The shell around the breaker: it has the clock and the probes. What doubt is, is the breaker's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from executors.backends.base import Backend, BackendError, SelfTest
from executors.breaker import Breaker
from executors.dispatcher import Dispatcher
from executors.latency import LatencyWindow
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
PROBE_WITHIN_S = 20.0
"""A self-test is a few tokens; an engine that needs longer keeps its callers waiting as well."""


class HealthWatch:
    """Judges one backend for as long as its node works."""

    def __init__(
        self,
        backend: Backend,
        breaker: Breaker,
        dispatcher: Dispatcher,
        latency: LatencyWindow,
        on_change: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._breaker = breaker
        self._dispatcher = dispatcher
        self._latency = latency
        self._on_change = on_change
        self._said: str | None = None
        self._probe: asyncio.Task[SelfTest] | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            if self._probe is not None:
                self._probe.cancel()

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
        # One that hangs is waited for again: a second one would hang behind it.
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._backend.self_test())
        successes = self._breaker.successes
        await asyncio.wait({self._probe}, timeout=PROBE_WITHIN_S)
        if not self._probe.done():
            self._probe.cancel()
            if self._breaker.successes > successes:
                return None  # it waited its turn behind runs that end
            return f"its self-test does not end within {PROBE_WITHIN_S:g} s"
        try:
            self._probe.result()
        except asyncio.CancelledError:
            return "its self-test did not end in time"
        except BackendUnavailable as error:
            cause = error.__cause__
            busy = isinstance(cause, BackendError) and cause.category is ErrorCategory.OVERLOADED
            return None if busy else str(error)
        except Exception as error:
            log.exception("the self-test failed in an unforeseen way")
            return f"its self-test raised {type(error).__name__}"
        return None
