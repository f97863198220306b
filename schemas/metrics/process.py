"""Metrics that every process has, whatever its role."""

from __future__ import annotations

from schemas.metrics.declaration import Metric

BUILD_INFO = Metric(
    "overspill_build_info",
    "gauge",
    "flag",
    "Always 1; the labels say what runs.",
    "Several versions for longer than a roll-out: finish it.",
    ("version", "role"),
)
READY = Metric(
    "overspill_ready",
    "gauge",
    "flag",
    "1 while /readyz answers 200.",
    "0 for minutes: `curl /readyz` says why in its body.",
    ("role",),
)
ASSIGNED_PARTITIONS = Metric(
    "overspill_assigned_partitions",
    "gauge",
    "partitions",
    "Partitions this process owns.",
    "0 on a ready process: there are more processes than partitions, add partitions.",
    ("role",),
)
ASSIGNMENTS = Metric(
    "overspill_assignments_total",
    "counter",
    "events",
    "Group assignments.",
    "Several a minute: processes come and go, or stand still past their session; look at restarts, "
    "CPU throttling and kafka.instance_id.",
    ("role",),
)
FENCED = Metric(
    "overspill_fenced_total",
    "counter",
    "events",
    "Times another owner had taken a partition.",
    "Without a rebalance: two processes share an instance id, give each its own.",
    ("role",),
)
UNKNOWN_OUTCOMES = Metric(
    "overspill_unknown_outcomes_total",
    "counter",
    "events",
    "Transactions whose end was read back from the committed offset.",
    "Rising: brokers answer late or fail over; nothing is lost or doubled by it.",
    ("role",),
)
FIRST_STARTS = Metric(
    "overspill_first_starts_total",
    "counter",
    "partitions",
    "Partitions begun at offset 0 for lack of a commit.",
    "On a system that ran before: a topic was made anew, find out by whom.",
    ("role",),
)
FETCH_ERRORS = Metric(
    "overspill_fetch_errors_total",
    "counter",
    "events",
    "Fetches, or partitions in their answers, that failed.",
    "Rising: a broker is away or slow; look at its log.",
    ("role",),
)
TRANSACTION_SECONDS = Metric(
    "overspill_transaction_seconds",
    "histogram",
    "seconds",
    "From the first decision (router) or the begin (executor) of a transaction to its commit.",
    "p99 above 0.5 s: brokers are slow to commit; look at their disks and request queues.",
    ("role",),
)
SERIES_DROPPED = Metric(
    "overspill_metric_series_dropped_total",
    "counter",
    "events",
    "Samples of series beyond the cap of a metric in one process, which are not kept.",
    "Above 0: a label has more values than it should, shorten the lists in the settings `metrics`.",
    ("metric",),
)

ALL = (
    BUILD_INFO,
    READY,
    ASSIGNED_PARTITIONS,
    ASSIGNMENTS,
    FENCED,
    UNKNOWN_OUTCOMES,
    FIRST_STARTS,
    FETCH_ERRORS,
    TRANSACTION_SECONDS,
    SERIES_DROPPED,
)
