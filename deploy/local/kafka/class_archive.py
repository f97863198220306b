"""Kafka's classes as one file that the JVM maps: a start takes 1.5 s instead of 4.

Made once, after the first broker on this machine is ready, from the list of classes that it loaded.
An archive only saves time: the JVM itself checks that it fits and does without it otherwise. Must
not know what the command it speeds up does.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_MAKE_S = 120.0
"""Far above the 7 s it takes; a machine that needs longer does without."""


def is_wanted(archive: Path) -> bool:
    """Tell whether the archive is still to be made, and can be."""
    return not archive.exists() and os.access(archive.parent, os.W_OK)


def flags(archive: Path, class_list: Path) -> list[str]:
    """Return the JVM flags that use the archive, or list the classes it is to be made of."""
    if is_wanted(archive):
        return [f"-XX:DumpLoadedClassList={class_list}"]
    # An empty file says that making it failed once.
    if archive.exists() and archive.stat().st_size:
        return [f"-XX:SharedArchiveFile={archive}"]
    return []


def make(archive: Path, class_list: Path, command: list[str]) -> None:
    """Make the archive for `command`, a JVM with its flags and class path but no main class.

    Never raises for a failure to make it: the broker runs as well without. The class list is used
    up. Two processes may do this at once: each works on a file of its own and the last one stays.
    """
    own = archive.with_name(f"{archive.name}.{os.getpid()}")
    dump = ["-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={own}"]
    try:
        done = subprocess.run(  # noqa: S603  # our own command line
            [*command, *dump],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_MAKE_S,
            check=False,
        )
        if done.returncode != 0:
            own.write_bytes(b"")
        own.replace(archive)
    except (OSError, subprocess.TimeoutExpired):
        pass
    finally:
        own.unlink(missing_ok=True)
        class_list.unlink(missing_ok=True)
