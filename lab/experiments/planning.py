"""What `predictive` plans with: estimates of work that are off, and how long batch may wait."""

from __future__ import annotations

from lab.experiments.setting import Setting, both, changed
from lab.tables import Table
from streams.policy import policy


def estimates(at: Setting) -> Table:
    """Let the work that callers estimate be off, by more and more, and then not there at all."""
    predictive = policy("predictive")
    runs = [
        (f"off by {error:.0%}", at.requests(estimate_error=error), predictive)
        for error in (0.0, 0.1, 0.3, 0.6, 1.0)
    ]
    runs.append(("none", list(changed(at.requests(), gflops=None)), predictive))
    runs += [(f"({name})", at.requests(), policy(name)) for name in ("gpu-only", "overflow")]
    rows = [(name, *both(at.run(requests, chosen))) for name, requests, chosen in runs]
    return Table(
        "What worse estimates cost",
        "`predictive` plans with the work that requests say they are. Standard deviation of the "
        "logarithm of what that is off by.",
        ("estimates", "metered cost", "objectives met"),
        rows,
    )


def patience(at: Setting) -> Table:
    """Let batch without an objective wait for longer and longer."""
    rows = []
    for seconds in (0, 60, 600, 3600):
        found = at.run(at.requests(), policy(f"predictive/{seconds}"))
        batch = found.latency_ms["batch"]
        rows.append((f"{seconds} s", *both(found), f"{(batch.p50 or 0) / 1000:.0f}",
                     f"{(batch.p99 or 0) / 1000:.0f}"))  # fmt: skip
    return Table(
        "What patience saves",
        "How long batch without an objective may wait for cheap capacity.",
        ("patience", "metered cost", "objectives met", "batch p50 s", "p99 s"),
        rows,
    )
