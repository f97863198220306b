"""Memory: how a long-lived process keeps its size. Knows the C library, and nothing of what runs.

Both are process-wide settings, made once before any work.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

LARGE = 512 * 1024
"""Bytes from which a buffer has pages of its own. Answers to fetches are of megabytes; what lives
long (a request that waits) is of kilobytes."""
_M_MMAP_THRESHOLD = -3
"""glibc's number for it, see mallopt(3)."""


def collect_by_the_clock() -> None:
    """Leave the collection of cycles to `run_role`'s beat, in a process that runs a role."""
    # What imports made lives as long as the process: never look at it again.
    gc.collect()
    gc.freeze()
    gc.disable()


def give_large_buffers_back() -> None:
    """Let the C library return large buffers to the system as soon as they are freed.

    Left to itself glibc raises its threshold to the size of what is freed, up to 32 MiB. Large
    buffers then share the heap with small ones, and one that does not fit any hole makes it grow
    for good: 8 MB at a time, hours apart. Other C libraries have no such setting and need none.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE)
