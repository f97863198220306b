"""Ctrl-C and SIGTERM as the ordinary end of a command that runs until told to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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


def asked_to_stop() -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets, from now to the end of the running loop."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    return asked


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
