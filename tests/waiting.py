"""Waiting for what a test expects to come true, and whether a process has ended."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import psutil

POLL_S = 0.002
"""A condition that asks a broker takes longer than this by itself."""


async def until(
    holds: Callable[[], bool] | Callable[[], Awaitable[bool]],
    within_s: float = 20,
    poll_s: float = POLL_S,
) -> None:
    """Return once the condition holds; fail if it does not in time.

    With `poll_s` 0 it looks at every step of the loop, and misses no state that passes quickly.
    """
    give_up = time.monotonic() + within_s
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < give_up, f"it did not come true within {within_s} s"
        await asyncio.sleep(poll_s)


def in_time(seconds: float) -> float:
    """Return how long a promise of so many seconds may take on this machine now.

    Where more processes want to run than there are cores, everything takes as many times longer.
    """
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], bool], what: str, within_s: float = 15) -> None:
    """Return once the condition holds; fail, saying what did not happen, if it does not in time."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not happen within {within_s} s"
        time.sleep(0.02)


def has_ended(process: psutil.Process) -> bool:
    """Return whether the process runs no more; one that nobody has waited for counts as ended."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between the two questions
        return True
