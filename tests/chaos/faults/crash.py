"""Every crash point of every role, one death after another, all roles at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from runtime.crash import CrashPoint
from tests.chaos.stack import Stack

ROUNDS = 11
"""A run: 229 deaths."""
EMPTY_HANDED_EVERY = 3
"""Points at which a process has nothing in hand show little: they come in every third round."""
TIMES_MOST = 6
"""A point is passed up to five times first: the death comes at another state of the load."""

Points = Mapping[str, tuple[CrashPoint, ...]]

_TRANSACTION = tuple(p for p in CrashPoint if p.value.startswith("transaction."))
_AT_ONCE = (CrashPoint.TRANSACTION_AFTER_FENCING, CrashPoint.CONTROL_BEFORE_PUBLISH)
_EMPTY_HANDED = (*_AT_ONCE, CrashPoint.ROUTER_AFTER_POLL, CrashPoint.ROUTER_AFTER_DECIDE)
POINTS: Points = {
    "router-1": (CrashPoint.ROUTER_AFTER_POLL, *_TRANSACTION[:3]),
    "router-2": (CrashPoint.ROUTER_AFTER_DECIDE, *_TRANSACTION[3:]),
    "gpu-1": (
        CrashPoint.EXECUTOR_BEFORE_INFERENCE,
        CrashPoint.EXECUTOR_IN_INFERENCE,
        CrashPoint.EXECUTOR_AFTER_INFERENCE,
    ),
    "cpu-1": tuple(p for p in _TRANSACTION if p is not CrashPoint.TRANSACTION_AFTER_FENCING),
    "npu-1": (CrashPoint.EXECUTOR_IN_REFUSAL,),
    "control": (
        CrashPoint.CONTROL_BEFORE_PUBLISH,
        CrashPoint.TRANSACTION_AFTER_FENCING,
        CrashPoint.TRANSACTION_BEFORE_ACK,
        CrashPoint.TRANSACTION_IN_COMMIT,
        CrashPoint.TRANSACTION_AFTER_COMMIT,
    ),
}
"""Where each role dies: every point at least once, those of a transaction in each kind of role that
has what they are about (control reads nothing, so it commits no offsets)."""
EACH_ONCE: Points = {
    "router-1": (CrashPoint.ROUTER_AFTER_POLL, CrashPoint.TRANSACTION_ACK_BEFORE_OFFSETS),
    "router-2": (CrashPoint.ROUTER_AFTER_DECIDE, CrashPoint.TRANSACTION_AFTER_FENCING),
    "gpu-1": POINTS["gpu-1"],
    "cpu-1": (
        CrashPoint.TRANSACTION_BEFORE_ACK,
        CrashPoint.TRANSACTION_IN_COMMIT,
        CrashPoint.TRANSACTION_AFTER_COMMIT,
    ),
    "gpu-2": (CrashPoint.TRANSACTION_OFFSETS_BEFORE_COMMIT,),
    "npu-1": (CrashPoint.EXECUTOR_IN_REFUSAL,),
    "control": (CrashPoint.CONTROL_BEFORE_PUBLISH,),
}
"""Every point in one role."""
STARTS = tuple(role for role in POINTS if role != "control")
"""They are armed from their first start; routers need control from theirs."""


async def every_point(stack: Stack, points: Points = POINTS, rounds: int = ROUNDS) -> None:
    """Let each role die at each of its points, in an order that the seed says."""
    plans = {
        role: [step for n in range(stack.times(rounds)) for step in _plan(stack, of_role, n)]
        for role, of_role in points.items()
    }
    await asyncio.gather(*(_in_turn(stack, role, plan) for role, plan in plans.items()))


def _plan(
    stack: Stack, of_role: tuple[CrashPoint, ...], number: int
) -> list[tuple[CrashPoint, int]]:
    all_of_them = number % EMPTY_HANDED_EVERY == 0
    points = [point for point in of_role if all_of_them or point not in _EMPTY_HANDED]
    stack.draw.shuffle(points)
    return [(point, _times(stack, point)) for point in points]


def _times(stack: Stack, point: CrashPoint) -> int:
    """Return how often the point is passed until the death; a few come once in a life."""
    return 1 if point in _AT_ONCE else stack.draw.randint(1, TIMES_MOST)


async def _in_turn(stack: Stack, role: str, plan: list[tuple[CrashPoint, int]]) -> None:
    for point, times in plan:
        await stack.crash(role, point, times)
    await stack.restart(role)  # the others die on
