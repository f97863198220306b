"""A long-lived process gives large buffers back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

GROWN = """
import sys
from runtime.memory import give_large_buffers_back

def resident_mb():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "set":
    give_large_buffers_back()
bytearray(8 << 20)  # freeing it raises the threshold of a C library that is left to itself
before = resident_mb()
large, small = [], []
for _ in range(32):
    large.append(bytearray(b"x" * (4 << 20)))
    small.append(bytearray(3000))
del large
print(resident_mb() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps large buffers")
@pytest.mark.parametrize(("how", "grows"), [("unset", True), ("set", False)])
def test_large_buffers_that_are_freed_leave_no_holes_among_small_ones(
    how: str, grows: bool
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GROWN, how], check=True, capture_output=True, text=True, timeout=60
    )
    assert (float(ran.stdout) > 2) is grows
