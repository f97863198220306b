"""The panels of the dashboard: what is shown in which order, and by which queries.

In the order in which an operator asks: are callers served, what do the pools do, what does it cost,
what goes wrong, how do the processes fare. Knows nothing of Grafana's JSON.
"""

from __future__ import annotations

from typing import NamedTuple

from deploy.observability import recording
from schemas.metrics import control, executor, process, router


class Panel(NamedTuple):
    """One graph.

    Attributes:
        title, description: what it shows, and what to read from it.
        unit: as Grafana names units.
        queries: (expression, legend).
    """

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _by(labels: str, name: str, window: str = "5m") -> str:
    return f"sum by ({labels}) (rate({name}[{window}]))"


def _quantile(share: float, name: str, labels: str) -> str:
    return f"histogram_quantile({share}, sum by (le, {labels}) (rate({name}_bucket[5m])))"


def _now(name: str, labels: str = "pool") -> str:
    return f"max by ({labels}) ({name})"


ROWS: dict[str, tuple[Panel, ...]] = {
    "Are callers served": (
        Panel(
            "Objectives missed",
            "Share of requests with an objective that missed it; 1 % is the whole budget.",
            "percentunit",
            ((recording.slo_errors("5m"), "5 min"), (recording.slo_errors("1h"), "1 h")),
        ),
        Panel(
            "Arrival to result, p99",
            "By pool and priority.",
            "s",
            ((recording.END_TO_END_P99, "{{pool}} {{priority}}"),),
        ),
        Panel(
            "In and out",
            "Requests taken, results and dead letters a second: what goes in comes out.",
            "reqps",
            (
                (f"sum(rate({router.CONSUMED.name}[5m]))", "taken"),
                (f"sum({recording.RESULTS})", "results"),
                (f"sum({recording.DEAD_LETTERS})", "dead letters"),
                (f"max({control.UNDECIDED.name})", "undecided (records)"),
            ),
        ),
    ),
    "What the pools do": (
        Panel(
            "Queue depth and threshold",
            "Where the queue of gpu passes the threshold, work overflows.",
            "short",
            (
                (_now(control.QUEUE_DEPTH.name), "{{pool}}"),
                (f"max({control.THRESHOLD.name})", "threshold"),
            ),
        ),
        Panel(
            "Oldest unfinished",
            "Rising by a second a second: a partition on which nothing is done.",
            "s",
            ((_now(control.LAG_AGE.name), "{{pool}}"),),
        ),
        Panel(
            "Time to drain",
            "Unfinished by what is finished a second; no line where nothing is.",
            "s",
            ((_now(control.LAG_DRAIN.name), "{{pool}}"),),
        ),
        Panel(
            "Unfinished records",
            "Routed and not finished, exact.",
            "short",
            ((_now(control.LAG_RECORDS.name), "{{pool}}"),),
        ),
        Panel(
            "Arriving and finishing",
            "Records a second, over 10 s.",
            "reqps",
            (
                (_now(control.ARRIVAL_RATE.name), "{{pool}} in"),
                (_now(control.FINISH_RATE.name), "{{pool}} out"),
            ),
        ),
        Panel(
            "Free slots and nodes",
            "0 free in all pools: the fleet is full.",
            "short",
            (
                (_now(control.FREE_SLOTS.name), "{{pool}} free slots"),
                (_now(control.LIVE_NODES.name), "{{pool}} live nodes"),
                (_now(control.DOWN_NODES.name), "{{pool}} down nodes"),
                (_now(control.SLOW_NODES.name), "{{pool}} slow nodes"),
            ),
        ),
        Panel(
            "Decisions by reason",
            "The rules that decide; fallback and waiting mean that there is no room.",
            "reqps",
            ((f"sum by (reason) ({recording.DECISIONS})", "{{reason}}"),),
        ),
        Panel(
            "Waiting and running, p99",
            "Waiting needs slots; running long is a slow engine.",
            "s",
            (
                (_quantile(0.99, executor.WAIT_SECONDS.name, "pool"), "{{pool}} waits"),
                (_quantile(0.99, executor.RUN_SECONDS.name, "pool"), "{{pool}} runs"),
            ),
        ),
        Panel(
            "Overflow",
            "1 while the queue of gpu is at the threshold or above.",
            "short",
            ((recording.OVERFLOW_ACTIVE, "overflow"),),
        ),
    ),
    "What it costs": (
        Panel(
            "Cost",
            "Seconds of a gpu slot a second, by pool: what is busy, at its price.",
            "short",
            ((recording.COST, "{{pool}}"),),
        ),
        Panel(
            "Saved against gpu only",
            "Expected, by measured run times; below 0 the cheap slots are too slow to save.",
            "percentunit",
            ((recording.SAVED, "saved"),),
        ),
        Panel(
            "Results by pool",
            "Where work is done.",
            "reqps",
            ((f"sum by (pool) ({recording.RESULTS})", "{{pool}}"),),
        ),
    ),
    "What goes wrong": (
        Panel(
            "Dead letters",
            "By category, a second.",
            "reqps",
            ((recording.DEAD_LETTERS, "{{category}}"),),
        ),
        Panel(
            "Errors and refusals",
            "Error results, and requests that nodes handed back.",
            "reqps",
            (
                (_by("pool, category", executor.ERRORS.name), "{{pool}} {{category}}"),
                (_by("pool", executor.REFUSALS.name), "{{pool}} refused"),
                (_by("pool", executor.RETRIES.name), "{{pool}} tried again"),
            ),
        ),
        Panel(
            "Modes and snapshot age",
            "Routers that do not hear of the fleet are stale after 2 s, blind after 30 s.",
            "short",
            (
                (f"sum by (mode) ({router.MODE.name})", "{{mode}} routers"),
                (f"max({router.SNAPSHOT_AGE_SECONDS.name})", "oldest snapshot (s)"),
                (f"max({control.LAG_HOLES.name})", "holes"),
            ),
        ),
    ),
    "How the processes fare": (
        Panel(
            "Ready",
            "Processes whose /readyz answers 200.",
            "short",
            ((f"sum by (role) ({process.READY.name})", "{{role}}"),),
        ),
        Panel(
            "Transactions, p99",
            "From the first decision to the commit; above 0.5 s brokers are slow.",
            "s",
            ((_quantile(0.99, process.TRANSACTION_SECONDS.name, "role"), "{{role}}"),),
        ),
        Panel(
            "Canaries",
            "A request of control's own a minute: time to its result, and those that were lost.",
            "s",
            (
                (_quantile(0.99, control.CANARY_SECONDS.name, "compute_type"), "{{compute_type}}"),
                (
                    f"sum by (compute_type) (increase({control.CANARY_LOST.name}[10m]))",
                    "{{compute_type}} lost in 10 min",
                ),
            ),
        ),
        Panel(
            "Assignments",
            "In 10 minutes; several a minute are a storm.",
            "short",
            ((f"sum by (role) (increase({process.ASSIGNMENTS.name}[10m]))", "{{role}}"),),
        ),
    ),
}
