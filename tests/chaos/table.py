"""The table of all runs, in Markdown: one row a fault."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from tests.chaos.oracle import Outcome
from tests.chaos.run import Report

COLUMNS = (
    "fault", "seeds", "kills", "in work", "requests", "lost", "doubled", "phantom", "in both",
    "mistaken", "miscounted", "verdict", "recovery s", "stall s",
)  # fmt: skip


def markdown(reports: Iterable[Report], tests: Mapping[str, str]) -> str:
    """Return the table; recovery and stall are the longest seen. Rows kept by tests come last."""
    rows: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        rows[report.fault].append(report)
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(_row(fault, runs) for fault, runs in rows.items())]
    unfilled = ["-"] * (len(COLUMNS) - 4)
    lines += [(name, *unfilled, verdict, "-", "-") for name, verdict in tests.items()]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)


def _row(fault: str, runs: list[Report]) -> Sequence[object]:
    kills = [kill for run in runs for kill in run.kills]
    judged = [run.judgement for run in runs]
    recoveries = [run.recovery_s for run in runs if run.recovery_s is not None]
    return (
        fault,
        " ".join(str(run.seed) for run in runs),
        len(kills) or "-",
        f"{in_work(runs):.0%}" if kills else "-",
        sum(one.requests for one in judged),
        sum(len(one.lost) for one in judged),
        sum(len(one.doubled) for one in judged),
        sum(len(one.phantom) + len(one.vanished) for one in judged),
        sum(len(one.in_both) for one in judged),
        sum(len(one.mistaken) for one in judged),
        sum(len(one.miscounted) for one in judged),
        worst({run.outcome for run in runs}).value,
        f"{max(recoveries):.1f}" if recoveries else "-",
        f"{max(run.stall_s for run in runs):.1f}",
    )


def in_work(reports: Iterable[Report]) -> float:
    """Return the share of kills that hit an open transaction or a busy slot."""
    hits = [kill.held.anything for report in reports for kill in report.kills]
    return sum(hits) / len(hits)


def worst(outcomes: set[Outcome]) -> Outcome:
    """Return FAIL if any is, else UNKNOWN if any is, else PASS."""
    for outcome in (Outcome.FAIL, Outcome.UNKNOWN):
        if outcome in outcomes:
            return outcome
    return Outcome.PASS
