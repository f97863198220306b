"""The system under test: every role a process, killed and started again at will.

Knows how to hurt it and what was hurt, not what for: that is a fault's.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from runtime.crash import CRASH_AT, EXIT_CODE, CrashPoint
from runtime.role import RoleProcess
from schemas.errors import BrokerUnreachable
from tests.chaos import sabotage
from tests.chaos.autopsy import Held, held_by
from tests.chaos.cluster import Cluster
from tests.chaos.history import HistoryFile
from tests.chaos.proxy import Proxy
from tests.kafka.counting import undecided, unfinished
from tests.kafka.system import OWN_NAME, System, get
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
            "gpu-1": ("--backend=emulated", "--slots=32", "--profile=fixed:400"),
            "gpu-2": ("--backend=emulated", "--slots=32", "--profile=fixed:400"),
            "cpu-1": ("--backend=emulated", "--slots=24", "--profile=fixed:500"),
            # A real engine: it hands back what it has no adapter for.
            "npu-1": ("--backend=llama", "--slots=2"),
        }.items()
    },
}
"""Two routers and two nodes of a pool take over from each other; the rest come back."""
CRASHES_WITHIN_S = 240.0
REST_WITHIN_S = 300.0
"""Bounds of a wait on a machine that others use; what is promised is judged, not these."""
TERM_WITHIN_S = 15.0
"""From SIGTERM to the end: promised of a whole stack."""

HOLE_S = 60.0
"""Six times the longest that anything here waits on purpose: 10 s, for a transaction to end."""
LOOK_S = 0.2
MOST = 0.7
"""Of all roles: five of seven have something in hand before they are killed together."""
TRIES = 20
"""Looks at a role that turns out to have nothing in hand, until it is hurt all the same."""


class Kill(NamedTuple):
    """One death, or one sleep that others took for one.

    Attributes:
        how: the crash point, `kill-9` or `pause`.
        held: what the process had in hand.
    """

    role: str
    how: str
    held: Held


class Stack:
    """Seven processes and what was done to them.

    Attributes:
        draw: chance, seeded: all that a fault leaves to chance comes from here.
        kills: in the order in which they were made.
        recoveries_s: how long it took each time until what was hurt was ready.
        ended: roles that ended though nobody ended them, and their last words.
        cluster, proxy: the broker and its network, where they are ours to hurt.
        history: where to note what is done.
        scale: how long and how often faults are made, of the full length.
    """

    def __init__(
        self,
        system: System,
        history: HistoryFile,
        seed: int,
        *,
        scale: float = 1.0,
        cluster: Cluster | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self.system = system
        self.history = history
        self.scale = scale
        self.draw = random.Random(seed)
        self.kills: list[Kill] = []
        self.recoveries_s: list[float] = []
        self.ended: list[str] = []
        self._cluster = cluster
        self._proxy = proxy

    @property
    def cluster(self) -> Cluster:
        """Return the broker."""
        assert self._cluster is not None, "this fault needs a broker of its own"
        return self._cluster

    @property
    def proxy(self) -> Proxy:
        """Return the network between broker and roles."""
        assert self._proxy is not None, "this fault needs a network of its own"
        return self._proxy

    def times(self, full: int) -> int:
        """Return how often to do what a full run does so often."""
        return max(1, round(full * self.scale))

    def start(
        self, name: str, *, like: str = "", crash_at: str = "", instance_id: str | None = OWN_NAME
    ) -> RoleProcess:
        """Start a role, or start it again.

        Args:
            name: of a role; `like`: or of another one that is run as that role is.
            crash_at: where it is to crash by itself.
            instance_id: as whom its group knows it.
        """
        with _environment({CRASH_AT: crash_at, "PYTHONPATH": sabotage.PATH}):
            return self.system.start(name, *COMMANDS[like or name], instance_id=instance_id)

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

    async def kill(self, name: str, tries: int = TRIES) -> None:
        """Kill a role with -9, if possible while it has something in hand."""
        await self._stop_at_work(name, tries)
        self.system.roles[name].kill()
        await self._note(name, "kill-9")

    async def kill_all(self) -> None:
        """Kill every role with -9 in one moment, if possible while most have something in hand."""
        running = self.system.running
        for tried in range(1, TRIES + 1):
            for role in running:
                os.kill(role.pid, signal.SIGSTOP)
            held = [await held_by(self.system, role.name) for role in running]
            if tried == TRIES or sum(one.anything for one in held) >= MOST * len(running):
                break
            for role in running:
                os.kill(role.pid, signal.SIGCONT)
            await asyncio.sleep(self.draw.uniform(0.0, 0.1))
        for role in running:
            role.kill()
        for role, had in zip(running, held, strict=True):
            self._killed(role.name, "kill-9", had)

    async def terminate(self, name: str) -> None:
        """Ask a role to stop while it has something in hand; it must end in order, and in time."""
        role = self.system.roles[name]
        await self._stop_at_work(name, TRIES)
        role.ask_to_stop()
        os.kill(role.pid, signal.SIGCONT)
        began_s = time.monotonic()
        await until(lambda: role.ended is not None, TERM_WITHIN_S * 4, poll_s=0.02)
        self.history.note("term", role=name, how=role.ended, took_s=time.monotonic() - began_s)
        assert role.ended == "exit code 0", (name, role.ended, role.last_line)

    async def pause(self, name: str, seconds: float, tries: int = TRIES) -> None:
        """Stop a role for so long, if possible while it has something in hand, then let it go on.

        One that ends by itself when it wakes, since it was given up, is started again.
        """
        await self._stop_at_work(name, tries)
        await self._note(name, "pause")
        await asyncio.sleep(seconds)
        os.kill(self.system.roles[name].pid, signal.SIGCONT)
        await self.recovers(name)

    async def restart(self, *names: str) -> None:
        """Start dead roles again, wait until they can work, and note how long that took."""
        for name in names:
            self.start(name)
        await self.recovers(*names)

    async def recovers(self, *names: str) -> None:
        """Wait until these roles (all, if none is named) are ready; note how long it took.

        What has ended by itself is started again, as any supervisor would; but it should not have,
        unless it found no broker at its start.
        """
        began_s = time.monotonic()

        async def ready() -> bool:
            roles = [self.system.roles[name] for name in names or COMMANDS]
            for role in roles:
                if role.ended is not None:
                    self.history.note("ended", role=role.name, how=role.ended, said=role.last_line)
                    if role.ended != f"exit code {BROKER_AWAY}":
                        self.ended.append(f"{role.name}: {role.ended}, {role.last_line}")
                    self.start(role.name)
            return all([await get(f"{role.url}/readyz") == "ok\n" for role in roles])

        await until(ready, CRASHES_WITHIN_S, poll_s=0.05)
        self.recoveries_s.append(time.monotonic() - began_s)
        self.history.note("recovered", roles=names, recovery_s=self.recoveries_s[-1])

    async def comes_to_rest(self) -> bool:
        """Return once all work has ended, as `overspill status` counts it, or nothing moves.

        Work that is left while all roles are ready and nothing has moved for a minute is not being
        done: a hole. False where things still move, or roles are not ready, when time is over.
        """
        give_up_s = time.monotonic() + REST_WITHIN_S
        before, since_s = None, time.monotonic()
        while time.monotonic() < give_up_s:
            try:
                status = await self.system.status()
            except BrokerUnreachable:  # it has no time
                continue
            left = undecided(status) + unfinished(status)
            if left == 0:
                return True
            now = (left, [pool.finished_total for pool in status.pools.values()])
            if now != before or not await self._all_ready():
                before, since_s = now, time.monotonic()
            elif time.monotonic() - since_s > HOLE_S:
                self.history.note("hole", left=left)
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
        self._killed(name, how, held)

    def _killed(self, name: str, how: str, held: Held) -> None:
        self.kills.append(Kill(name, how, held))
        self.history.note("kill", role=name, how=how, **held._asdict(), at_ms=time.time() * 1000)


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    """Start a child with these in its environment; ours is as before afterwards."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
