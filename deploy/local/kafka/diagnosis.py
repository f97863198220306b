"""Why a broker cannot run, read from an error or from the lines it logged, in one sentence.

Pure but for asking a disk for its free space. Must not know how the process is started or watched.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from typing import TYPE_CHECKING

from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from pathlib import Path

_QUOTE_LENGTH = 200
"""Characters of the broker's own line that an error shows: it must still read as one line."""
_FULL_BELOW = 1 << 20
"""Bytes free below which a disk counts as full: a mapped index file that meets the end of the disk
kills the JVM without any word of it, and the last blocks of a file system are often reserved."""

_STACK = re.compile(r"^\s*(at |\.\.\. \d+ more|Suppressed:)")
_HARMLESS = "Signal already used by VM or OS"
"""Kafka says so at each start of ours, since it may not handle signals (`-Xrs`)."""
_SEVERE = re.compile(r"\b(FATAL|ERROR|Exception|Error)\b|Exception:|Error:")


def is_disk_full(error: BaseException) -> bool:
    """Tell whether this error, or one that led to it, is a disk or quota without room."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        link = link.__cause__ or link.__context__
    return False


def disk_full(folder: Path) -> LocalKafkaError:
    """Return the error for a disk without room for `folder`."""
    return LocalKafkaError(
        f"no space left on the disk of {folder}: free some, or choose another with --data-dir"
    )


def last_words(log: str) -> str:
    """Return the last line of `log` that says what went wrong, or its last line, or "".

    Stack frames are passed over, and the line is cut to what an error message can show.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _STACK.match(line)]
    severe = [line for line in lines if _SEVERE.search(line) and not _is_harmless(line)]
    said = (severe or lines or [""])[-1]
    return said if len(said) <= _QUOTE_LENGTH else f"{said[: _QUOTE_LENGTH - 3]}..."


def _is_harmless(line: str) -> bool:
    return _HARMLESS in line or line == "java.lang.reflect.InvocationTargetException"


def is_port_taken(log: str) -> bool:
    """Tell whether the broker gave up because another process holds one of its ports."""
    return "Address already in use" in log


def explain(log: str, *, happened: str, log_file: Path) -> LocalKafkaError:
    """Return the error for a broker that `happened` ("did not start", "stopped: exit code 1").

    `log` is what this run of the broker wrote to `log_file`.
    """
    data_dir = log_file.parent
    if "No space left on device" in log or _free_bytes(data_dir) < _FULL_BELOW:
        return disk_full(data_dir)
    if is_port_taken(log):
        return LocalKafkaError(
            f"the embedded Kafka {happened}: another process took its port; "
            "start again, or choose a port with --kafka-port"
        )
    if "OutOfMemoryError" in log:
        return LocalKafkaError(
            f"the embedded Kafka {happened}: its memory ran out; "
            "send less at once, or use a broker of your own with --bootstrap-servers"
        )
    said = last_words(log)
    quoted = f": {said}" if said else " without a word"
    return LocalKafkaError(f"the embedded Kafka {happened}{quoted} (all of it: {log_file})")


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(os.fspath(folder)).free
    except OSError:
        return _FULL_BELOW  # unknown is not full
