"""How many processors an engine in process may keep busy: its share of what this process may use.

Engines spin while they wait for their other threads: one thread more than there are processors
makes all of them slow.
"""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def share_of_cpus(executors: int) -> int:
    """Return how many threads each of so many executors on this host may run, at least 1."""
    usable = len(os.sched_getaffinity(0))
    for folder in _control_groups():
        try:
            allowed = cpus_of_quota((folder / "cpu.max").read_text())
        except (OSError, ValueError):
            continue  # no limit there, or an older version of control groups
        usable = usable if allowed is None else min(usable, allowed)
    return max(1, usable // executors)


def cpus_of_quota(cpu_max: str) -> int | None:
    """Return how many processors a `cpu.max` allows, at least 1; None if it sets no limit.

    It holds two numbers of microseconds, quota and period, or `max` for the quota.
    """
    quota, _, period = cpu_max.strip().partition(" ")
    return None if quota == "max" else max(1, int(quota) // int(period))


def _control_groups() -> tuple[Path, ...]:
    """Return the control group of this process and those around it (version 2)."""
    try:
        own = CGROUP / Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    except OSError:
        return ()
    return (own, *own.parents)
