"""The product's own roles as processes, as a user starts them: `overspill ROLE`, until ready.

They end with this process, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from schemas.errors import OverspillError

READY_WITHIN_S = 100.0
LOOK_S = 0.1
STOP_WITHIN_S = 12.0
_SERVES_AT = re.compile(r"http://[0-9.]+:[0-9]+")


class Role:
    """One running role; its log stands in a file."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.name = " ".join(arguments[:1])
        self._log = log
        with log.open("wb") as sink:
            leash = ["-m", "deploy.local.leash", str(os.getpid())]
            command = [sys.executable, "-m", "deploy.cli", *arguments]
            self.process = subprocess.Popen(  # noqa: S603  ourselves
                [sys.executable, *leash, *command], stdout=sink, stderr=sink
            )

    def get(self, path: str) -> str | None:
        """Return what its endpoint answers with status 200; None if it does not."""
        address = _SERVES_AT.search(self._log.read_text())
        if address is None:
            return None
        try:
            with urllib.request.urlopen(address[0] + path, timeout=1) as answer:  # noqa: S310  ours
                body: bytes = answer.read()
        except OSError:  # HTTPError is one too
            return None
        return body.decode()

    async def until_ready(self) -> None:
        """Return when it is ready; raise OverspillError if it ends before or never is."""
        give_up_s = time.monotonic() + READY_WITHIN_S
        while await asyncio.to_thread(self.get, "/readyz") is None:
            if self.process.poll() is not None or time.monotonic() > give_up_s:
                raise OverspillError(
                    f"{self.name} did not get ready: {self._log.read_text()[-500:]}"
                )
            await asyncio.sleep(LOOK_S)

    @property
    def last_line(self) -> str:
        """Return the last line it printed, empty if none."""
        return self._log.read_text().rstrip().rpartition("\n")[2]

    def stop(self) -> None:
        """Halt it where it is (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)

    async def until_ended(self) -> None:
        """Return when it has ended."""
        await asyncio.to_thread(self.process.wait)


class Fleet:
    """Roles that were started one by one, some of them ended meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[Role] = []

    def start(self, command: Sequence[str]) -> Role:
        """Start a role and return it."""
        role = Role(command, self._folder / f"{len(self._running)}.log")
        self._running.append(role)
        return role

    def end(self) -> None:
        """Ask all to stop; end those that do not."""
        for role in self._running:
            role.process.terminate()
        for role in self._running:
            try:
                role.process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                role.process.kill()
                role.process.wait()


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
