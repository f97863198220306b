"""All faults: `make chaos`; ends with 0 only if every run passes.

RUNS=N runs of each fault, from seed SEED on (default 1); FAULT=NAME only this one; SCALE=X each so
long, of its full length; RATE=N requests a second; OUT=FOLDER for histories, logs and table.md,
which grows row by row. The same SEED makes the same schedule again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.cluster import Cluster
from tests.chaos.faults import FAULTS, Fault, Needs
from tests.chaos.oracle import Outcome
from tests.chaos.run import Report, run, small_disk
from tests.chaos.table import in_work, markdown, worst
from tests.chaos.tested import ROWS, passed
from tests.waiting import in_time

RATE = 100
"""Requests a second: half of what the nodes can bear, and what two cores can."""
IN_WORK_LEAST = 0.8
"""Of kills that hit an open transaction or a busy slot: the others show little."""


class Campaign:
    """All runs so far and what they showed; its table is written after each."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.reports: list[Report] = []
        self.tests: dict[str, str] = {}
        self.flaws = 0
        self._began_s = time.monotonic()

    def make(self, fault: Fault, seed: int, cluster: Cluster, per_s: float, scale: float) -> None:
        """Make one run."""
        folder = self.out / f"{fault.name.replace(' ', '-')}-{seed}"
        folder.mkdir()
        making = run(fault, seed, cluster=cluster, folder=folder, per_s=per_s, scale=scale)
        try:
            report = asyncio.run(making)
        except Exception as error:  # noqa: BLE001  the other rows are made all the same
            # The fault could not be made, or the system did not come back.
            self.flaws += 1
            self._say(f"BROKEN {fault.name}, seed {seed}: {error!r:.500} ({folder})")
        else:
            self.reports.append(report)
            late = report.recovery_s is not None and report.recovery_s > in_time(fault.recovers_s)
            self.flaws += late or report.outcome is not Outcome.PASS
            self._say(_line(report) + (f" LATE: over {fault.recovers_s:.0f} s" if late else ""))
        self._write()

    def test(self, bootstrap: str) -> None:
        """Run the tests that keep the other rows."""
        for row, nodes in ROWS.items():
            well = passed(nodes, bootstrap, self.out)
            self.flaws += not well
            self.tests[row] = Outcome.PASS.value if well else Outcome.FAIL.value
            self._say(f"{self.tests[row]} {row}: {', '.join(nodes)}")
            self._write()

    def end(self, *, whole: bool) -> int:
        """Print the table; return the exit code."""
        print(f"\n{markdown(self.reports, self.tests)}\nHistories and logs: {self.out}")
        kills = sum(len(report.kills) for report in self.reports)
        share = in_work(self.reports) if kills else 1.0
        requests = sum(report.judgement.requests for report in self.reports)
        print(f"{requests} requests, {kills} kills and pauses, {share:.0%} of them at work")
        if whole and share < IN_WORK_LEAST:
            print("too few of the kills hit a process at work: nothing is shown")
            return 1
        if self.flaws:
            print(f"{self.flaws} runs did not pass")
        reached = worst({report.outcome for report in self.reports})
        return 0 if reached is Outcome.PASS and not self.flaws else 1

    def _say(self, line: str) -> None:
        print(f"[{(time.monotonic() - self._began_s) / 60:5.1f} min] {line}", flush=True)

    def _write(self) -> None:
        (self.out / "table.md").write_text(markdown(self.reports, self.tests))


def main() -> int:
    """Run, print a line a run and the table; return the exit code."""
    out = Path(os.environ.get("OUT", f"build/chaos-{time.strftime('%Y%m%d-%H%M%S')}")).resolve()
    first, runs = int(os.environ.get("SEED", "1")), int(os.environ.get("RUNS", "1"))
    scale, per_s = float(os.environ.get("SCALE", "1")), float(os.environ.get("RATE", RATE))
    only = os.environ.get("FAULT")
    faults = [fault for fault in FAULTS if only in (None, fault.name)]
    if not faults:
        print(f"no fault {only!r}; there are: {', '.join(f.name for f in FAULTS)}")
        return 2
    out.mkdir(parents=True)
    # Clients of ours say for minutes that there is no broker: it is we who took it away.
    logging.basicConfig(filename=out / "observers.log")
    campaign = Campaign(out)
    with _broker(out) as cluster:
        for seed in range(first, first + runs):
            for fault in faults:
                if fault.needs is not Needs.SMALL_DISK:
                    campaign.make(fault, seed, cluster, per_s, scale)
        if only is None:
            campaign.test(cluster.bootstrap_servers)
    for fault in faults:
        if fault.needs is Needs.SMALL_DISK:
            with small_disk(out) as disk:
                if disk is None:
                    print(f"not made, as it needs the right to mount a disk: {fault.name}")
                    continue
                with Cluster(disk / "kafka") as cluster:
                    campaign.make(fault, first, cluster, per_s, scale)
    return campaign.end(whole=only is None)


@contextmanager
def _broker(out: Path) -> Iterator[Cluster]:
    folder = out / "kafka"
    try:
        with Cluster(folder) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # histories tell all that is worth keeping


def _line(report: Report) -> str:
    judged = report.judgement
    flaws = {
        name: len(found)
        for name, found in judged._asdict().items()
        if isinstance(found, tuple) and found
    }
    if report.ended:
        flaws["ended"] = len(report.ended)
    recovery = "-" if report.recovery_s is None else f"{report.recovery_s:.1f} s"
    return (
        f"{report.outcome.value} {report.fault}, seed {report.seed}: {judged.requests} requests, "
        f"{len(report.kills)} kills, recovery {recovery}, stall {report.stall_s:.1f} s, "
        f"{flaws or 'no flaw'} ({report.history})"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)  # it takes no arguments: all is chosen in the environment
    sys.exit(main())
