"""Calls of the backend: each ends in time, whatever the engine does.

A call that runs out of time is cancelled, which stops the engine. One that does not stop even then
hangs: its request goes on without it, its slot does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from executors.backends.base import Backend, BackendError, Call, Completion
from executors.retry import Failure
from runtime.logs import about
from schemas.outcomes import ErrorCategory

log = logging.getLogger(__name__)

CANCEL_WITHIN_S = 5.0
"""An engine stops at its next token or closes a connection: milliseconds, or seconds if busy."""


class EngineCalls:
    """Runs calls on one backend, and knows those that hang."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._hanging: set[asyncio.Task[Completion]] = set()

    @property
    def hanging(self) -> int:
        """Return how many calls were cancelled and have not ended since."""
        return len(self._hanging)

    async def run(
        self, call: Call, within_s: float, on_hang: Callable[[asyncio.Task[Completion]], None]
    ) -> Completion | Failure | None:
        """Return how a call ended; None if its time ran out.

        Cancelling this cancels the call. It ends only when the engine has let go of the call, or
        hangs: then `on_hang` is given what will be done when it lets go.
        """
        task = asyncio.ensure_future(self._backend.infer(call))
        try:
            await asyncio.wait({task}, timeout=max(0.0, within_s))
            in_time = task.done()
        finally:
            if not task.done():
                await self._stop(task, call, on_hang)
        return _ending(task, call) if in_time else None

    async def _stop(
        self,
        task: asyncio.Task[Completion],
        call: Call,
        on_hang: Callable[[asyncio.Task[Completion]], None],
    ) -> None:
        task.add_done_callback(_nobody_asks)
        task.cancel()
        await asyncio.wait({task}, timeout=CANCEL_WITHIN_S)
        if not task.done():
            hung = about(call.request_id)
            log.error("the engine hangs: a call did not end when it was cancelled", extra=hung)
            self._hanging.add(task)
            task.add_done_callback(self._hanging.discard)
            on_hang(task)


def _nobody_asks(task: asyncio.Task[Completion]) -> None:
    """Take note of an error that came too late, else asyncio would complain of it."""
    if not task.cancelled():
        task.exception()


def _ending(task: asyncio.Task[Completion], call: Call) -> Completion | Failure:
    try:
        return task.result()
    except asyncio.TimeoutError:
        return Failure(ErrorCategory.UNAVAILABLE, "the backend timed out")
    except BackendError as error:
        return Failure(error.category, error.message, error.retry_after_ms)
    except Exception as error:
        # Whatever an engine throws, the record must leave the partition.
        log.exception("the backend failed", extra=about(call.request_id))
        return Failure(ErrorCategory.BACKEND_ERROR, f"the engine raised {type(error).__name__}")
