"""The process between us and the JVM: it ends the broker when its parent is gone, however it went.

Run as a script with only the standard library: `guard.py PARENT_PID LOCK_FD COMMAND...`. It prints
the broker's pid on standard output and sends all that the broker prints to standard error. A parent
killed with -9 can tell nobody, so the guard looks for its parent five times a second; should
the guard itself be killed with -9, the kernel ends the broker.

The kernel could not watch the parent directly: its signal comes when the *thread* that started
the child ends, which for a caller with a thread pool is any moment. The guard has one thread.

It kills the broker and never asks it to stop (ADR 0076): what was acknowledged is with the kernel.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys

_LOOK_S = 0.2
_PR_SET_PDEATHSIG = 1
_STOPS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_SIGNALS = {*_STOPS, signal.SIGCHLD}


def main() -> int:
    """Run the command until it, the parent or our patience ends; return its exit code."""
    parent, lock = int(sys.argv[1]), int(sys.argv[2])
    libc = ctypes.CDLL(None)  # before the fork: nothing may be loaded between fork and exec

    def before_exec() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    # Blocked, so that they are taken one by one by sigtimedwait and none is lost in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with (
        subprocess.Popen(  # noqa: S603  # our parent's own command line
            sys.argv[3:],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            preexec_fn=before_exec,  # noqa: PLW1509  # this process has one thread
            # As long as the broker lives its data directory is locked, whoever else has died.
            pass_fds=(lock,),
        ) as broker
    ):
        print(broker.pid, flush=True)  # noqa: T201  # the parent reads it
        while broker.poll() is None:
            received = signal.sigtimedwait(_SIGNALS, _LOOK_S)
            # Woken from a pause (SIGSTOP, a laptop's sleep), Python tells of a signal that never
            # came, its number anything but one of these.
            asked_to_stop = received is not None and received.si_signo in _STOPS
            if asked_to_stop or os.getppid() != parent:
                broker.kill()
                broker.wait()
    # An empty lock file says that the broker was not abandoned.
    os.ftruncate(lock, 0)
    return broker.returncode if broker.returncode >= 0 else 128 - broker.returncode


if __name__ == "__main__":
    sys.exit(main())
