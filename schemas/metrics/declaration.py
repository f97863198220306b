"""What a metric's declaration is, and the closed sets that label values come from.

Knows no metric: those are declared beside it, a file a role.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal[
    "records", "requests", "seconds", "GFLOP", "slots", "nodes", "partitions", "events", "cost",
    "flag", "ratio",
]  # fmt: skip
"""`cost` is in seconds of a gpu slot; a `flag` is 0 or 1."""

LATENCY_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Seconds: 50 ms and 200 ms are the strict and the realtime objective, 300 s a long generation."""
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Records a transaction; 1,000 is the most a router takes at once."""

OTHER = "other"
"""The value of `model` and `tenant` for every name that settings do not list."""
SERIES_MAX = 1000
"""Of one metric in one process, for whatever a label may be given by mistake. The largest honest
one, results by 100 models and 3 states, has 300."""

NO_ACTION = "Nothing: it explains others."

LABELS = {
    "version": "of the package",
    "role": "router, control, executor",
    "pool": "a configured pool; `none` where nothing was routed",
    "shadow_pool": "as `pool`",
    "compute_type": "gpu, cpu, npu",
    "reason": "a rule of the policy (docs/policy.md)",
    "mode": "normal, stale, blind",
    "source": "requests, retry",
    "category": "of errors or dead letters (docs/messages.md)",
    "status": "ok, error, expired",
    "priority": "realtime, normal, batch",
    "met": "true, false",
    "side": "routing and shadow; routed and gpu-only",
    "state": "running, waiting",
    "what": "drain, pause, freeze",
    "topic": "nodes, lag, orders, decisions",
    "metric": "a name of this page",
    "model": "listed in the setting `metrics.models`, else `other`",
    "tenant": "listed in the setting `metrics.tenants`, else `other`",
}
"""Every label there is, and the closed set of its values."""


class Metric(NamedTuple):
    """One metric.

    Attributes:
        help: what it counts, one sentence.
        action: what an operator does about it, and when.
        labels: keys of LABELS.
        buckets: of a histogram, in its unit.
    """

    name: str
    kind: Kind
    unit: Unit
    help: str
    action: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = LATENCY_BUCKETS_S
