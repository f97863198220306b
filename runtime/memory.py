"""Memory: how a long-lived process keeps its size. Knows the C library, and nothing of what runs.

Both are process-wide settings, made once before any work.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc

LARGE = 2 * 1024 * 1024
"""Bytes from which a buffer has pages of its own. Answers to fetches under load are of megabytes.
What a transaction sends is of one megabyte, copied several times on its way: fresh pages for each
copy have taken a tenth of a router's time."""
SPARE = 4 * LARGE
"""Bytes that may lie free at the end of the heap: more than all copies that live at a time, else
it would shrink and grow with each transaction."""
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1
"""glibc's numbers for them, see mallopt(3)."""


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
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE)
        mallopt(_M_TRIM_THRESHOLD, SPARE)
