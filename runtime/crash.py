"""Crash points: named places where a process can be told to die, so that a test can choose where.

`OVERSPILL_CRASH_AT=transaction.in-commit:3` kills a process the third time it gets there, at once
and without any clean-up, as kill -9 would. Not set, each point is a call of an empty function. It
knows names only; what a death there may leave behind is for those who test to know.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from enum import Enum

from schemas.errors import UsageError

CRASH_AT = "OVERSPILL_CRASH_AT"
EXIT_CODE = 137
"""What a shell says of a process killed with signal 9."""


class CrashPoint(Enum):
    """A place in a process's life.

    Points named `transaction` are in every role: routers, nodes and control commit alike.
    """

    ROUTER_AFTER_POLL = "router.after-poll"
    ROUTER_AFTER_DECIDE = "router.after-decide"
    EXECUTOR_BEFORE_INFERENCE = "executor.before-inference"
    EXECUTOR_IN_INFERENCE = "executor.in-inference"
    EXECUTOR_AFTER_INFERENCE = "executor.after-inference"
    EXECUTOR_IN_REFUSAL = "executor.in-refusal"
    CONTROL_BEFORE_PUBLISH = "control.before-publish"
    TRANSACTION_AFTER_FENCING = "transaction.after-fencing"
    TRANSACTION_BEFORE_ACK = "transaction.before-ack"
    TRANSACTION_ACK_BEFORE_OFFSETS = "transaction.ack-before-offsets"
    TRANSACTION_OFFSETS_BEFORE_COMMIT = "transaction.offsets-before-commit"
    TRANSACTION_IN_COMMIT = "transaction.in-commit"
    TRANSACTION_AFTER_COMMIT = "transaction.after-commit"


DIES_AFTER_S = {
    CrashPoint.EXECUTOR_IN_INFERENCE: 0.005,
    CrashPoint.EXECUTOR_IN_REFUSAL: 0.005,
    CrashPoint.TRANSACTION_BEFORE_ACK: 0.004,
    CrashPoint.TRANSACTION_IN_COMMIT: 0.001,
}
"""Points at which something is under way: it begins a few turns of the loop after its call. Dying
at the call would be dying before it. Writing takes 4-6 ms, ending 2, a refusal both."""


def choose(armed: str | None) -> Callable[[CrashPoint], None]:
    """Return what a point calls; raise UsageError for a point that does not exist."""
    if not armed:
        return _pass_by
    name, _, times = armed.partition(":")
    try:
        chosen, left = CrashPoint(name), int(times or 1)
    except ValueError:
        names = ", ".join(point.value for point in CrashPoint)
        raise UsageError(
            f"{CRASH_AT}={armed}: write POINT or POINT:TIMES; points are: {names}"
        ) from None

    def count(point: CrashPoint) -> None:
        nonlocal left
        if point is chosen:
            left -= 1
            if left == 0:
                _die_at(point)

    return count


def _pass_by(_: CrashPoint) -> None:
    """Go on: no crash was asked for."""


def _die_at(point: CrashPoint) -> None:
    after_s = DIES_AFTER_S.get(point)
    if after_s is None:
        _die(point)
    else:
        asyncio.get_running_loop().call_later(after_s, _die, point)


def _die(point: CrashPoint) -> None:
    sys.stderr.write(f"crashes at {point.value}, as {CRASH_AT} says\n")
    sys.stderr.flush()
    os._exit(EXIT_CODE)


reached = choose(os.environ.get(CRASH_AT))
