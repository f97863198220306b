"""One side of a comparison: a process of its own, started anew for each run.

So neither side has what the other one imports, warms up or sets for the whole process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from lab.instruments.run_settings import settings_of
from lab.instruments.steady import Steady
from runtime.process import run_loop
from runtime.settings import Settings

WITHIN_S = 300
"""For a run of a side; the slowest seen took a tenth of it."""


class SideCost(NamedTuple):
    """What a run gave: records a second once under way, CPU seconds with the start."""

    per_s: float
    cpu_seconds: float


def run_side(module: str, settings: Settings, records: int) -> SideCost:
    """Run a module that calls `be_side`, and return what it said."""
    command = [sys.executable, "-m", module, settings.kafka.bootstrap_servers, settings.prefix,
               str(records)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)  # noqa: S603  ourselves
    return SideCost(**json.loads(done.stdout.splitlines()[-1]))


def be_side(run: Callable[[Settings, int], Awaitable[Steady]]) -> None:
    """Run as the command line says, and print what it cost."""
    bootstrap_servers, prefix, records = sys.argv[1:]
    settings = settings_of(bootstrap_servers, prefix)
    progress = run_loop(lambda: run(settings, int(records)))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cost = SideCost(progress.per_s(), used.ru_utime + used.ru_stime)
    print(json.dumps(cost._asdict()))  # noqa: T201  the result
