"""Run a command that ends with its parent, however the parent ends.

Run as a script with only the standard library: `leash.py PARENT_PID COMMAND...`. A parent killed
with -9 can tell nobody, so the kernel is asked to kill this process when its parent is gone, which
still holds after the command has taken its place. The parent must start it from its main thread:
what the kernel watches is the thread that did.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel, see that the parent has not gone meanwhile, become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606  # our parent's own command line


if __name__ == "__main__":
    main()
