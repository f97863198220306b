"""Kafka's classes as one file that the JVM maps: a start takes 1.5 s instead of 4.

Made once, in the background, after the first broker on this machine is ready and from the list of
classes that it loaded. An archive only saves time: the JVM checks that it fits and does without it
otherwise. Must not know what the command it speeds up does.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

from deploy.local.kafka import guard

if TYPE_CHECKING:
    from pathlib import Path

_SIGNALLED = 128
"""Exit codes above this are a process that was ended, not one that failed."""


def flags(archive: Path, class_list: Path) -> list[str]:
    """Return the JVM flags that use the archive, or list the classes it is to be made of."""
    if _is_wanted(archive):
        return [f"-XX:DumpLoadedClassList={class_list}"]
    # An empty file says that making it failed once.
    if archive.exists() and archive.stat().st_size:
        return [f"-XX:SharedArchiveFile={archive}"]
    return []


def make(archive: Path, class_list: Path, command: list[str]) -> threading.Thread | None:
    """Begin to make the archive if there is none; return the thread that ends with it, or None.

    `command` is a JVM with its flags and class path but no main class; `class_list`, which that JVM
    has written, is used up. It takes 7 s of one core, at a low priority. If this process ends
    sooner, so does the making, and a later start makes it. Never raises for a failure: the broker
    runs as well without.
    """
    if not _is_wanted(archive):
        return None
    try:
        lock = os.open(archive.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            process = _begin(archive, _settled(class_list, archive), command, lock)
        finally:
            os.close(lock)  # the guard has its own
            class_list.unlink(missing_ok=True)
    except OSError:  # another process makes it, or the disk is full
        return None
    thread = threading.Thread(target=_finish, args=(process, archive), daemon=True)
    thread.start()
    return thread


def _is_wanted(archive: Path) -> bool:
    return not archive.exists() and os.access(archive.parent, os.W_OK)


def _settled(class_list: Path, archive: Path) -> Path:
    """Copy the whole lines of a list that the broker is still writing to beside the archive."""
    copy = archive.with_suffix(".lst")
    whole, newline, _ = class_list.read_bytes().rpartition(b"\n")
    copy.write_bytes(whole + newline)
    return copy


def _begin(
    archive: Path, class_list: Path, command: list[str], lock: int
) -> subprocess.Popen[bytes]:
    making = archive.with_suffix(".new")
    making.unlink(missing_ok=True)
    guarded = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(lock)]
    # -Xrs: nothing is lost with a half-made archive, so a signal to stop ends it at once.
    dump = ["-Xrs", "-Xshare:dump", f"-XX:SharedClassListFile={class_list}"]
    return subprocess.Popen(  # noqa: S603  # our own command line
        [*guarded, "nice", "-n", "10", *command, *dump, f"-XX:SharedArchiveFile={making}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
    )


def _finish(process: subprocess.Popen[bytes], archive: Path) -> None:
    code = process.wait()
    making = archive.with_suffix(".new")
    try:
        if code == 0:
            making.replace(archive)
        elif code <= _SIGNALLED:
            archive.write_bytes(b"")
        archive.with_suffix(".lst").unlink(missing_ok=True)
        making.unlink(missing_ok=True)
    except OSError:
        pass  # the cache was removed meanwhile
