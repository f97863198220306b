"""The system under test: every role a process, killed and started again at will.

Knows how to hurt it and what was hurt, not what for: that is a fault's.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from deploy.local.role import RoleProcess
from runtime.crash import CRASH_AT, EXIT_CODE, CrashPoint
from tests.chaos.autopsy import Held, held_by
from tests.chaos.history import HistoryFile
from tests.kafka.counting import undecided, unfinished
from tests.kafka.system import System, get
from tests.waiting import until

PARTITIONS = 4
BROKER_AWAY = 3
"""Exit code of a role that finds no broker at its start."""
COMMANDS: dict[str, tuple[str, ...]] = {
    "control": ("control",),
    "router-1": ("router",),
    "router-2": ("router",),
    **{
        node: ("executor", f"--pool={node.rpartition('-')[0]}", f"--node-id={node}", *flags)
        for node, flags in {
            "gpu-1": ("--backend=emulated", "--slots=8", "--profile=fixed:150"),
            "gpu-2": ("--backend=emulated", "--slots=8", "--profile=fixed:150"),
            "cpu-1": ("--backend=emulated", "--slots=8", "--profile=fixed:200"),
            # A real engine: it hands back what it has no adapter for.
            "npu-1": ("--backend=llama", "--slots=2"),
        }.items()
    },
}
"""Two routers and two nodes of a pool take over from each other; the rest come back."""
CRASHES_WITHIN_S = 240.0
REST_WITHIN_S = 300.0
"""Bounds of a wait on a machine that others use; what is promised is judged, not these."""

HOLE_S = 60.0
"""Six times the longest that anything here waits on purpose: 10 s, for a transaction to end."""
LOOK_S = 0.2


class Kill(NamedTuple):
    """One death, or one sleep that others took for one.

    Attributes:
        how: the crash point, `kill-9` or `pause`.
        held: what the process had in hand.
        recovery_s: until a successor under its name was ready; None if it died before.
    """

    role: str
    how: str
    held: Held
    recovery_s: float | None


class Stack:
    """Seven processes and what was done to them.

    Attributes:
        draw: chance, seeded: all that a fault leaves to chance comes from here.
        kills: in the order in which they were made.
    """

    def __init__(self, system: System, history: HistoryFile, seed: int) -> None:
        self.system = system
        self.draw = random.Random(seed)
        self.kills: list[Kill] = []
        self._history = history

    def start(self, name: str, *, crash_at: str = "") -> RoleProcess:
        """Start a role, or start it again; armed if it is to crash by itself."""
        with _environment(crash_at):
            return self.system.start(name, *COMMANDS[name])

    async def until_ready(self, *names: str) -> None:
        """Wait until these can work."""
        await self.system.until_ready(*(self.system.roles[name] for name in names))

    async def crash(self, name: str, point: CrashPoint, times: int) -> None:
        """Start a role so that it dies at a point, wait until it did, and note what it held."""
        armed = f"{point.value}:{times}"
        if name in self.system.roles and self.system.roles[name].ended is None:
            await self.kill(name)
        role = self.start(name, crash_at=armed)

        def dead() -> bool:
            if role.ended == f"exit code {BROKER_AWAY}":
                self.start(name, crash_at=armed)  # as any supervisor would
            return role.ended is not None

        await until(dead, CRASHES_WITHIN_S, poll_s=0.02)
        assert role.ended == f"exit code {EXIT_CODE}", (name, armed, role.ended, role.last_line)
        assert point.value in role.log_file.read_text().splitlines()[-1], (name, armed)
        await self._note(name, point.value, point)

    async def kill(self, name: str, tries: int = 20) -> None:
        """Kill a role with -9, if possible while it has something in hand."""
        await self._stop_at_work(name, tries)
        self.system.roles[name].kill()
        await self._note(name, "kill-9")

    async def pause(self, name: str, seconds: float, tries: int = 20) -> None:
        """Stop a role for so long, if possible while it has something in hand, then let it go on.

        One that ends by itself when it wakes, since it was given up, is started again.
        """
        await self._stop_at_work(name, tries)
        await self._note(name, "pause")
        await asyncio.sleep(seconds)
        role = self.system.roles[name]
        os.kill(role.pid, signal.SIGCONT)
        began_s = time.monotonic()

        async def ready() -> bool:
            if role.ended is not None:
                self._history.note("ended", role=name, how=role.ended, said=role.last_line)
                self.start(name)
            return await get(f"{role.url}/readyz") == "ok\n"

        await until(ready, CRASHES_WITHIN_S, poll_s=0.05)
        self._recovered(name, time.monotonic() - began_s)

    async def restart(self, name: str) -> None:
        """Start a dead role again, wait until it can work, and note how long that took."""
        self.start(name)
        began_s = time.monotonic()
        await self.until_ready(name)
        self._recovered(name, time.monotonic() - began_s)

    def _recovered(self, name: str, recovery_s: float) -> None:
        last = max(n for n, kill in enumerate(self.kills) if kill.role == name)
        self.kills[last] = self.kills[last]._replace(recovery_s=recovery_s)
        self._history.note("recovered", role=name, recovery_s=recovery_s)

    async def comes_to_rest(self) -> bool:
        """Return once all work has ended, as `overspill status` counts it, or nothing moves.

        Work that is left while all roles are ready and nothing has moved for a minute is not being
        done: a hole. False where things still move, or roles are not ready, when time is over.
        """
        give_up_s = time.monotonic() + REST_WITHIN_S
        before, since_s = None, time.monotonic()
        while time.monotonic() < give_up_s:
            status = await self.system.status()
            left = undecided(status) + unfinished(status)
            if left == 0:
                return True
            now = (left, [pool.finished_total for pool in status.pools.values()])
            if now != before or not await self._all_ready():
                before, since_s = now, time.monotonic()
            elif time.monotonic() - since_s > HOLE_S:
                self._history.note("hole", left=left)
                return True
            await asyncio.sleep(LOOK_S)
        return False

    async def _all_ready(self) -> bool:
        roles = self.system.running
        return all([await get(f"{role.url}/readyz") == "ok\n" for role in roles])

    async def _stop_at_work(self, name: str, tries: int) -> None:
        """Send SIGSTOP; again and again while the role turns out to have nothing in hand."""
        pid = self.system.roles[name].pid
        for tried in range(1, tries + 1):
            os.kill(pid, signal.SIGSTOP)
            if tried == tries or (await held_by(self.system, name)).anything:
                return
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(self.draw.uniform(0.0, 0.1))

    async def _note(self, name: str, how: str, point: CrashPoint | None = None) -> None:
        held = await held_by(self.system, name)
        if point is CrashPoint.TRANSACTION_AFTER_FENCING:
            held = held._replace(begun=0)  # by the one before
        elif point is CrashPoint.TRANSACTION_IN_COMMIT:
            # What was on its way to the broker when the process died may have ended it since.
            held = held._replace(transactions=max(1, held.transactions))
        elif point is not None and how.startswith("executor."):
            held = held._replace(begun=max(1, held.begun))  # the point is in a slot
        self.kills.append(Kill(name, how, held, None))
        self._history.note("kill", role=name, how=how, **held._asdict(), at_ms=time.time() * 1000)


@contextmanager
def _environment(crash_at: str) -> Iterator[None]:
    """Start a child with this in its environment; ours is as before afterwards."""
    os.environ[CRASH_AT] = crash_at
    try:
        yield
    finally:
        del os.environ[CRASH_AT]
