"""A Java process behind its guard: it ends when we do, and keeps the folder locked while it lives.

Owns how it is started and stopped. Must not know what it runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from deploy.local.kafka import guard

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_STOP_S = 5.0
"""The guard kills at once; a kernel that writes for a full memory takes its time."""


class Guarded:
    """A guarded process.

    Attributes:
        pid: its own; 0 if it could not be started.
    """

    def __init__(self, command: Sequence[str], *, lock: int, log_file: Path) -> None:
        """Start `command`, its output in `log_file`; it inherits the descriptor `lock`."""
        guarded = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(lock)]
        with log_file.open("wb") as log:
            self._guard = subprocess.Popen(  # noqa: S603  # our own command line
                [*guarded, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=(lock,),
                # Ctrl-C is for the caller, who stops the broker after its clients.
                start_new_session=True,
            )
        assert self._guard.stdout is not None  # noqa: S101  # asked for above; for the type checker
        with self._guard.stdout as out:
            self.pid = int(out.readline() or 0)
        if not self.pid:
            self._guard.wait()

    def exit_code(self) -> int | None:
        """Return how it ended (128 + the signal that killed it), None while it runs."""
        return self._guard.poll()

    def stop(self) -> None:
        """Kill it and wait for its end, at most 5 s; calling it again does nothing."""
        self._guard.terminate()
        try:
            self._guard.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the kernel then ends the process too
            self._guard.wait()
