"""Who may use a data directory: one broker at a time, and what to do about one that was left.

The kernel holds the lock for the processes that have the file open, and the broker inherits it: so
it is held exactly as long as a broker can write there, and no crash leaves it behind. What the file
says is only for people. Must not know what else lies in the folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ORPHAN_S = 15.0
"""How long a broker whose parent was killed may still take to stop; its guard gives it 10 s."""
_ORPHAN_LOOK_S = 0.1


@contextmanager
def locked(lock: Path, progress: Callable[[str], None]) -> Iterator[int]:
    """Hold the folder of the file `lock`; yield the descriptor that a broker inherits to keep it.

    Raises:
        LocalKafkaError: a living process uses the folder.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(descriptor, lock.parent, progress)
        abandoned_by = _owner(descriptor)
        if abandoned_by is not None:
            progress(
                f"Taking over {lock.parent}: process {abandoned_by} is gone "
                "and its broker ended without its guard"
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid()}).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path, progress: Callable[[str], None]) -> None:
    give_up = time.monotonic() + _ORPHAN_S
    told = False
    while not _try_lock(descriptor):
        owner = _owner(descriptor)
        # A dead owner's broker is stopping right now; a living one's will not.
        if owner is None or _lives(owner) or time.monotonic() > give_up:
            whose = "another process" if owner is None else f"process {owner}"
            raise LocalKafkaError(
                f"{folder} is in use by {whose}: stop it, "
                "or give this broker a folder of its own with --data-dir"
            )
        if not told:
            progress(f"Waiting for the broker that process {owner} left behind to stop")
            told = True
        time.sleep(_ORPHAN_LOOK_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(descriptor: int) -> int | None:
    """Return the pid in the lock file, or None for a file that says nothing (a clean stop)."""
    try:
        return int(json.loads(os.pread(descriptor, 4096, 0))["pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
