"""Ctrl-C and SIGTERM as the ordinary end of a command that runs until told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM end the body, and go on after it as if it had returned.

    SIGINT is set too: a shell that starts us in the background has told us to ignore it.
    """
    before = {
        number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends; SIGINT or SIGTERM cancels it, and that is no error.

    A signal that raised would do so in the middle of any callback, and asyncio would print it.
    """
    with stoppable():
        asyncio.run(_cancelled_when_asked(work))


async def _cancelled_when_asked(work: Coroutine[Any, Any, None]) -> None:
    asked = asked_to_stop()
    working = asyncio.ensure_future(work)
    asking = asyncio.ensure_future(asked.wait())
    await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
    for task in (working, asking):
        task.cancel()
    await asyncio.wait({working, asking})
    if not working.cancelled():
        working.result()


def asked_to_stop() -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets, from now to the end of the running loop."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    return asked


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
