"""Kinds take turns: what has waited longest is next, with all of its kind."""

from __future__ import annotations

import asyncio

from executors.backends.turns import Turns
from tests.unit.executor_doubles import settle


class Calls:
    """Calls that run until the test ends them."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self, *names: str) -> list[str]:
        """Begin calls, the kind of each its first letter; return what runs then."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.ensure_future(self._call(name))
            await settle()
        return self.running

    async def end(self, *names: str) -> list[str]:
        """End calls; return what runs then."""
        for name in names:
            self._ends[name].set()
        await settle()
        return self.running

    async def cancel(self, name: str) -> list[str]:
        """Cancel a call; return what runs then."""
        self._tasks[name].cancel()
        await settle()
        return self.running

    async def _call(self, name: str) -> None:
        async with self.turns.of(name[0]):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def test_calls_of_one_kind_run_together() -> None:
    calls = Calls()
    assert await calls.begin("a1", "a2", "a3") == ["a1", "a2", "a3"]
    assert await calls.end("a1", "a2", "a3") == []
    assert await calls.begin("b1") == ["b1"]


async def test_another_kind_waits_for_what_runs_and_for_nothing_that_comes_later() -> None:
    calls = Calls()
    assert await calls.begin("a1", "a2", "b1", "a3", "b2") == ["a1", "a2"]
    assert await calls.end("a1") == ["a2"]
    assert await calls.end("a2") == ["b1", "b2"]
    assert await calls.begin("b3") == ["b1", "b2"]  # a3 has waited longer
    assert await calls.end("b1", "b2") == ["a3"]
    assert await calls.end("a3") == ["b3"]


async def test_who_no_longer_waits_holds_nobody_up() -> None:
    calls = Calls()
    assert await calls.begin("a1", "b1", "a2") == ["a1"]
    assert await calls.cancel("b1") == ["a1", "a2"]
    assert await calls.cancel("a1") == ["a2"]
    assert await calls.begin("b2") == ["a2"]
    assert await calls.end("a2") == ["b2"]


async def test_a_call_that_is_cancelled_as_its_turn_comes_gives_it_up() -> None:
    calls = Calls()
    await calls.begin("a1", "b1", "a2")
    calls._ends["a1"].set()
    for _ in range(10):
        if not calls.running:  # a1 has left: b1 is admitted and has not gone on yet
            break
        await asyncio.sleep(0)
    assert await calls.cancel("b1") == ["a2"]


async def test_a_call_that_is_cancelled_just_before_its_turn_holds_nobody_up() -> None:
    calls = Calls()
    await calls.begin("a1", "b1", "b2")
    calls._ends["a1"].set()  # it leaves before b1 has taken note
    assert await calls.cancel("b1") == ["b2"]
    assert await calls.end("b2") == []
    assert await calls.begin("a2") == ["a2"]
