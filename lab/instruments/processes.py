"""The product's own roles as a benchmark runs them: started as a user starts them, until ready.

They end with this process, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from runtime.role import RoleProcess, RoleSpec
from schemas.errors import OverspillError

READY_WITHIN_S = 100.0
LOOK_S = 0.1
STOP_WITHIN_S = 12.0


class Role(RoleProcess):
    """A role that is waited for and halted."""

    async def until_ready(self) -> None:
        """Return when it is ready; raise OverspillError if it ends before or never is."""
        give_up_s = time.monotonic() + READY_WITHIN_S
        while not await asyncio.to_thread(self._is_ready):
            if self.ended is not None or time.monotonic() > give_up_s:
                raise OverspillError(f"{self.name} did not get ready: {self.last_line}")
            await asyncio.sleep(LOOK_S)

    async def until_ended(self) -> None:
        """Return when it has ended."""
        await asyncio.to_thread(self.wait)

    def halt(self) -> None:
        """Halt it where it is."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on after a halt."""
        os.kill(self.pid, signal.SIGCONT)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=1):  # noqa: S310  loopback
                return True
        except OSError:  # HTTPError is one too
            return False


class Fleet:
    """Roles that were started one by one, some of them ended meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Role] = []

    def start(self, command: Sequence[str]) -> Role:
        """Start a role and return it."""
        spec = RoleSpec(command[0], tuple(command))
        role = Role(spec, self._folder / f"{len(self._running)}.log")
        role.start()
        self._running.append(role)
        return role

    def end(self) -> None:
        """Ask all to stop; end those that do not."""
        left = [role for role in self._running if role.ended is None]
        for role in left:
            role.ask_to_stop()
        give_up_s = time.monotonic() + STOP_WITHIN_S
        while left and time.monotonic() < give_up_s:
            time.sleep(LOOK_S)
            left = [role for role in left if role.ended is None]
        for role in left:
            role.kill()


@contextlib.contextmanager
def fleet() -> Iterator[Fleet]:
    """Let roles be started that end with this."""
    with tempfile.TemporaryDirectory(prefix="overspill-bench-") as folder:
        started = Fleet(Path(folder))
        try:
            yield started
        finally:
            started.end()


@contextlib.contextmanager
def roles(commands: Sequence[Sequence[str]]) -> Iterator[list[Role]]:
    """Run these roles as long as this lasts."""
    with fleet() as started:
        yield [started.start(command) for command in commands]


def cpu_s(process: int) -> float:
    """Return the CPU seconds that a process has used, as Linux counts them."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / os.sysconf("SC_CLK_TCK")
