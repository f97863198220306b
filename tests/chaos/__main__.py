"""All faults, many seeds: `make chaos`; ends with 0 only if every run passes.

RUNS=N runs of each fault, from seed SEED on (default 1); FAULT=NAME only this one; RATE=N requests
a second; OUT=FOLDER for histories, logs and table.md. OVERSPILL_TEST_BOOTSTRAP takes a broker that
runs. The same SEED with RUNS=1 makes a run again.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.kafka import start_broker
from deploy.local.kafka.ports import free_port
from schemas.errors import OverspillError
from tests.chaos.faults import FAULTS
from tests.chaos.oracle import Outcome
from tests.chaos.run import Report, run
from tests.chaos.table import in_work, markdown, worst

RUNS, RATE = 12, 100
"""276 deaths at crash points, 144 random ones, 36 zombies; what the nodes can bear, nearly."""
IN_WORK_LEAST = 0.8
"""Of kills that hit an open transaction or a busy slot: the others show little."""


def main() -> int:
    """Run, print a line a run and the table; return the exit code."""
    out = Path(os.environ.get("OUT", f"build/chaos-{time.strftime('%Y%m%d-%H%M%S')}")).resolve()
    first, runs = int(os.environ.get("SEED", "1")), int(os.environ.get("RUNS", RUNS))
    per_s, only = float(os.environ.get("RATE", RATE)), os.environ.get("FAULT")
    faults = [fault for fault in FAULTS if only in (None, fault.name)]
    if not faults:
        print(f"no fault {only!r}; there are: {', '.join(f.name for f in FAULTS)}")
        return 2
    reports, broken = [], 0
    out.mkdir(parents=True)
    with _broker(out) as bootstrap:
        for fault in faults:
            for seed in range(first, first + runs):
                folder = out / f"{fault.name.replace(' ', '-')}-{seed}"
                folder.mkdir()
                making = run(fault, seed, bootstrap=bootstrap, folder=folder, per_s=per_s)
                try:
                    report = asyncio.run(making)
                except (AssertionError, OverspillError) as error:
                    broken += 1  # the fault could not be made, or the system did not come back
                    print(f"BROKEN {fault.name}, seed {seed}: {error} ({folder})", flush=True)
                else:
                    reports.append(report)
                    print(_line(report), flush=True)
    table = markdown(reports)
    (out / "table.md").write_text(table)
    print(f"\n{table}\nHistories and logs: {out}")
    if broken:
        print(f"{broken} runs came to no end")
        return 1
    if only is None and in_work(reports) < IN_WORK_LEAST:
        print(f"only {in_work(reports):.0%} of the kills hit a process at work: nothing is shown")
        return 1
    return 0 if worst({report.judgement.outcome for report in reports}) is Outcome.PASS else 1


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    shared = os.environ.get("OVERSPILL_TEST_BOOTSTRAP")
    if shared:
        yield shared
        return
    with start_broker(port=free_port(), data_dir=folder / "kafka", progress=print) as broker:
        yield broker.bootstrap_servers


def _line(report: Report) -> str:
    judged = report.judgement
    flaws = {
        name: len(found)
        for name, found in judged._asdict().items()
        if isinstance(found, tuple) and found
    }
    return (
        f"{judged.outcome.value} {report.fault}, seed {report.seed}: {judged.requests} requests, "
        f"{len(report.kills)} kills, stall {report.stall_s:.1f} s, {flaws or 'no flaw'} "
        f"({report.history})"
    )


if __name__ == "__main__":
    sys.exit(main())
