"""The product's own roles as processes, as a user starts them: `overspill ROLE`, until ready.

They end with this process, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
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


@contextlib.contextmanager
def roles(commands: Sequence[Sequence[str]]) -> Iterator[list[Role]]:
    """Run these roles as long as this lasts."""
    with tempfile.TemporaryDirectory(prefix="overspill-bench-") as folder:
        running: list[Role] = []
        try:
            for number, command in enumerate(commands):
                running.append(Role(command, Path(folder) / f"{number}.log"))
            yield running
        finally:
            for role in running:
                role.process.terminate()
            for role in running:
                try:
                    role.process.wait(STOP_WITHIN_S)
                except subprocess.TimeoutExpired:
                    role.process.kill()
                    role.process.wait()
