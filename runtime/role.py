"""One role as a process of its own, as `overspill ROLE` runs it: started, looked at, stopped.

Owns the process, its port and its log file. Must not know which roles there are nor what is done
when one dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from runtime import leash
from runtime.ports import LOOPBACK, free_port, is_free


class RoleSpec(NamedTuple):
    """What to run.

    Attributes:
        name: unique in the stack.
        arguments: of the command.
        port: of metrics and health, if it is free; 0: any.
    """

    name: str
    arguments: tuple[str, ...]
    port: int = 0


class RoleProcess:
    """A role that runs or has run.

    Attributes:
        log_file: what it printed, of all its runs since the stack began.
        url: where the present run serves metrics and health.
    """

    def __init__(self, spec: RoleSpec, log_file: Path) -> None:
        self.name = spec.name
        self.log_file = log_file
        self.url = ""
        self._arguments = spec.arguments
        self._port = spec.port
        self._process: subprocess.Popen[bytes] | None = None
        log_file.write_bytes(b"")

    def start(self) -> None:
        """Run it anew, where it ran before if it can; call this from the main thread (`leash`)."""
        if not self._port or not is_free(self._port):
            self._port = free_port()
        port = self._port
        self.url = f"http://{LOOPBACK}:{port}"
        overspill = [sys.executable, "-m", "deploy.cli", *self._arguments, f"--web-port={port}"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command line
                [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), *overspill],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Not the caller's: a folder there may be named like a package of ours.
                cwd=self.log_file.parent,
                # Ctrl-C is for the caller, who stops roles before their broker.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Return the process id of the present run."""
        return self._running.pid

    @property
    def ended(self) -> str | None:
        """Return how it ended; None while it runs."""
        code = self._running.poll()
        if code is None:
            return None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    @property
    def last_line(self) -> str:
        """Return the last line it printed."""
        lines = self.log_file.read_text(errors="replace").split("\n")
        return next(
            (line.strip() for line in reversed(lines) if line.strip()), "it printed nothing"
        )

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        self._running.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now and wait for that."""
        self._running.kill()
        self.wait()

    def wait(self) -> None:
        """Return when it has ended."""
        self._running.wait()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process
