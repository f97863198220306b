"""How the memory of processes grows: their resident size, sampled, and its slope.

Linux only. Knows processes by name and id, not what they do.
"""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

MB = 1_000_000
FIT_FOR_S = 60.0
"""A slope over less says nothing: a collection of cycles alone comes once a minute."""


class Growth(NamedTuple):
    """Of one process, MB: where it was at the end, at most, and by how much it grew a minute.

    Attributes:
        per_minute_mb: by a linear fit; None if there was too little to fit.
    """

    last_mb: float
    most_mb: float
    per_minute_mb: float | None


class Sizes:
    """Resident sizes of some processes over time."""

    def __init__(self, processes: dict[str, int]) -> None:
        self._processes = processes
        self._samples: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def sample(self, at_s: float) -> dict[str, float]:
        """Read all sizes now, `at_s` seconds after the beginning; return them in MB."""
        now = {name: _resident_mb(process) for name, process in self._processes.items()}
        for name, mb in now.items():
            self._samples[name].append((at_s, mb))
        return now

    def growth(self, from_s: float) -> dict[str, Growth]:
        """Return the growth of each process from a moment on."""
        return {name: growth_of(samples, from_s) for name, samples in self._samples.items()}


def growth_of(samples: list[tuple[float, float]], from_s: float) -> Growth:
    """Return the growth that samples (seconds, MB) show, fitted to those from `from_s` on."""
    sizes = [mb for _, mb in samples]
    late = [sample for sample in samples if sample[0] >= from_s]
    per_minute_mb = None
    if late and late[-1][0] - late[0][0] >= FIT_FOR_S:
        times_s, late_mb = zip(*late, strict=True)
        per_minute_mb = statistics.linear_regression(times_s, late_mb).slope * 60
    return Growth(sizes[-1], max(sizes), per_minute_mb)


def _resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MB
