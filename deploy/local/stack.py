"""Overspill on one machine: every role a process, watched until told to stop.

Owns the order of start and stop and what is done when a role dies. Must not know how a broker is
run (`deploy.local.kafka`), what the roles are (`fleet`), or how progress is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import aiohttp

from deploy.local.fleet import Fleet, roles
from deploy.local.folders import Folders
from deploy.local.kafka import Broker
from deploy.local.provision import provision
from runtime.role import RoleProcess
from runtime.settings import KafkaSettings, Settings
from schemas.errors import OverspillError

READY_WITHIN_S = 90.0
"""All roles: 6 s on an idle machine; a busy one imports slowly."""
STOP_WITHIN_S = 11.0
"""A role takes 10 s at most by its own word; then it is killed. The broker needs a second more."""
QUICK_S = 10.0
"""A role that dies younger than this never worked."""
QUICK_DEATHS_MAX = 3
FIRST_PAUSE_S = 0.5
"""Before the first restart; doubled with each quick death."""
LOOK_S = 0.1
ASK_TIMEOUT_S = 2.0


T = TypeVar("T")


class StackFailed(OverspillError):
    """The local stack cannot be brought up or kept up."""


class Quickness(NamedTuple):
    """How a role's deaths came so far: how many quick ones in a row."""

    deaths: int = 0

    def after(self, lived_s: float) -> Quickness:
        """Return the state after one more death."""
        return Quickness(self.deaths + 1 if lived_s < QUICK_S else 1)

    @property
    def pause_s(self) -> float:
        """Return how long to wait before the next start."""
        return float(FIRST_PAUSE_S * 2 ** (self.deaths - 1))

    @property
    def hopeless(self) -> bool:
        """Return whether another start would only fail again."""
        return self.deaths >= QUICK_DEATHS_MAX


class Watched:
    """A role with its history."""

    def __init__(self, process: RoleProcess) -> None:
        self.process = process
        self.quickness = Quickness()
        self._started_s = 0.0
        self._start_at_s: float | None = 0.0

    def look(self, say: Callable[[str], None]) -> None:
        """Start it if it is time to, and notice its death; raise StackFailed at the last one."""
        now_s = time.monotonic()
        if self._start_at_s is not None:
            if now_s >= self._start_at_s:
                self._start_at_s, self._started_s = None, now_s
                self.process.start()
            return
        ended = self.process.ended
        if ended is None:
            return
        process = self.process
        self.quickness = self.quickness.after(now_s - self._started_s)
        if self.quickness.hopeless:
            raise StackFailed(
                f"{process.name} stopped {self.quickness.deaths} times in a row ({ended}), last "
                f"words: {process.last_line!r}; see {process.log_file}"
            )
        pause_s = self.quickness.pause_s
        self._start_at_s = now_s + pause_s
        say(f"{process.name} stopped ({ended}: {process.last_line}); again in {pause_s:g} s")

    @property
    def is_up(self) -> bool:
        """Return whether a process of it runs."""
        return self._start_at_s is None and self.process.ended is None


class Stack:
    """The roles around a running broker.

    Attributes:
        settings: what every role was given.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        broker: Broker,
        folders: Folders,
        say: Callable[[str], None],
        page_port: int = 0,
    ) -> None:
        # Its broker is open to this machine: passwords and certificates are for another one.
        kafka = KafkaSettings(
            bootstrap_servers=broker.bootstrap_servers, instance_id=settings.kafka.instance_id
        )
        self.settings = settings.model_copy(update={"kafka": kafka})
        self._broker = broker
        self._say = say
        folders.logs.mkdir(parents=True, exist_ok=True)
        self._watched = [
            Watched(RoleProcess(spec, folders.logs / f"{spec.name}.log"))
            for spec in roles(self.settings, fleet, page_port)
        ]

    @property
    def roles(self) -> Sequence[RoleProcess]:
        """Return the roles, running or between two runs."""
        return [watched.process for watched in self._watched]

    async def start(self) -> None:
        """Prepare the topics, start every role, and return when all say that they are ready.

        Raises:
            StackFailed: a role keeps dying or never gets ready.
            LocalKafkaError: the broker stopped.
        """
        self._say("Preparing topics")
        await provision(self.settings)
        give_up_s = time.monotonic() + READY_WITHIN_S
        told: list[str] = []
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ASK_TIMEOUT_S)
        ) as session:
            while True:
                self._look()
                answers = await asyncio.gather(*(_unready(session, w) for w in self._watched))
                waiting = {
                    w.process.name: why
                    for w, why in zip(self._watched, answers, strict=True)
                    if why is not None
                }
                if not waiting:
                    return
                if time.monotonic() > give_up_s:
                    name, why = next(iter(waiting.items()))
                    raise StackFailed(
                        f"{name} is not ready after {READY_WITHIN_S:g} s ({why}); see "
                        f"{self._log_file(name)}"
                    )
                if list(waiting) != told:
                    told = list(waiting)
                    self._say(f"Waiting for {', '.join(told)}")
                await asyncio.sleep(LOOK_S)

    async def watch(self) -> NoReturn:
        """Restart roles that die, until cancelled; raise as `start` does."""
        while True:
            self._look()
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Stop every role in order, all at once; kill what does not end in 11 s."""
        left = [watched.process for watched in self._watched if watched.is_up]
        for process in left:
            process.ask_to_stop()
        give_up_s = time.monotonic() + STOP_WITHIN_S
        while left and time.monotonic() < give_up_s:
            await asyncio.sleep(LOOK_S)
            left = [process for process in left if process.ended is None]
        for process in left:
            self._say(f"{process.name} did not stop within {STOP_WITHIN_S:g} s and is killed")
            process.kill()

    def _look(self) -> None:
        self._broker.check()
        for watched in self._watched:
            watched.look(self._say)

    def _log_file(self, name: str) -> str:
        return next(str(role.log_file) for role in self.roles if role.name == name)


async def run_stack(
    stack: Stack, work: Callable[[], Awaitable[T]], asked_to_stop: asyncio.Event
) -> T | None:
    """Start the stack, do the work beside it, stop the stack; return None if asked to stop before.

    Raises:
        StackFailed, LocalKafkaError: the stack could not be brought or kept up.
    """

    async def start_and_work() -> T:
        await stack.start()
        working = asyncio.ensure_future(work())
        watching = asyncio.ensure_future(stack.watch())
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else watching.result()
        finally:
            await _cancelled(working, watching)

    life = asyncio.ensure_future(start_and_work())
    asked = asyncio.ensure_future(asked_to_stop.wait())
    try:
        await asyncio.wait({life, asked}, return_when=asyncio.FIRST_COMPLETED)
        return life.result() if life.done() else None
    finally:
        await _cancelled(life, asked)
        await stack.stop()


async def _cancelled(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _unready(session: aiohttp.ClientSession, watched: Watched) -> str | None:
    """Return why a role is not ready; None if it is."""
    if not watched.is_up:
        return "not running"
    try:
        async with session.get(f"{watched.process.url}/readyz") as answer:
            return None if answer.ok else (await answer.text()).strip()
    except (aiohttp.ClientError, asyncio.TimeoutError):
        return "no answer yet"
