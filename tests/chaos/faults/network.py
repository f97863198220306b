"""The network between roles and broker: slow, cut, or late with the one request that matters."""

from __future__ import annotations

import asyncio

from tests.chaos.proxy import FAIR, Weather
from tests.chaos.stack import Stack

SLOW = Weather(delay_s=(0.01, 0.04), bytes_per_s=1_000_000.0)
"""Half a dozen round trips a transaction: a few of them take a second, which counts as doubt."""
SLOW_S = 60.0
CUT = Weather(cut=True)
CUTS = 4
CUT_S = (2.0, 9.0)
"""Within a session (6 s) and beyond it."""
WORKS_S = (5.0, 8.0)
HELD = Weather(hold_s=(1.5, 11.0), hold_share=0.03)
"""Of a hundred transactions a second three end late: before their sender asks again (5 s), after it
did so and went on, and when it has given up (8 s)."""
HELD_S, HELD_LEAST_S = 60.0, 20.0


async def slow(stack: Stack) -> None:
    """Let every frame take its time."""
    await _weather(stack, SLOW, SLOW_S * stack.scale)
    await stack.recovers()


async def cut(stack: Stack) -> None:
    """Swallow everything, again and again; what was on its way arrives when it is over."""
    for _ in range(stack.times(CUTS)):
        await asyncio.sleep(stack.draw.uniform(*WORKS_S))
        await _weather(stack, CUT, stack.draw.uniform(*CUT_S))
        await stack.recovers()


async def ends_held_back(stack: Stack) -> None:
    """Deliver ends of transactions late, though their senders have given up or asked again."""
    await _weather(stack, HELD, max(HELD_LEAST_S, HELD_S * stack.scale))
    await asyncio.sleep(HELD.hold_s[1])
    await stack.recovers()
    assert stack.proxy.held > 0
    stack.history.note("held", ends=stack.proxy.held)


async def _weather(stack: Stack, weather: Weather, seconds: float) -> None:
    stack.proxy.weather = weather
    await asyncio.sleep(seconds)
    stack.proxy.weather = FAIR
