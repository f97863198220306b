"""Every metric that any process exports, declared once: name, kind, labels and what it means.

Label values come from closed sets only. Dashboards, alerts and docs/metrics.md are generated from
or tested against this list; `runtime.metrics` makes collectors of it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]

LATENCY_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip
"""Seconds: 50 ms and 200 ms are the strict and the realtime objective, 300 s a long generation."""
BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Records a transaction; 1,000 is the most a router takes at once."""


class Metric(NamedTuple):
    """One metric; `labels` are names whose values come from closed sets."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = LATENCY_BUCKETS_S


# Every process.
BUILD_INFO = Metric(
    "overspill_build_info", "gauge", "Always 1; the labels say what runs.", ("version", "role")
)
READY = Metric("overspill_ready", "gauge", "1 while /readyz answers 200.", ("role",))
ASSIGNED_PARTITIONS = Metric(
    "overspill_assigned_partitions", "gauge", "Partitions this process owns.", ("role",)
)
ASSIGNMENTS = Metric(
    "overspill_assignments_total",
    "counter",
    "Group assignments; several a minute mean a storm.",
    ("role",),
)
FENCED = Metric(
    "overspill_fenced_total", "counter", "Times another owner had taken a partition.", ("role",)
)
UNKNOWN_OUTCOMES = Metric(
    "overspill_unknown_outcomes_total",
    "counter",
    "Transactions whose end was read back from the committed offset.",
    ("role",),
)
FIRST_STARTS = Metric(
    "overspill_first_starts_total",
    "counter",
    "Partitions begun at offset 0 for lack of a commit.",
    ("role",),
)
FETCH_ERRORS = Metric(
    "overspill_fetch_errors_total",
    "counter",
    "Fetches, or partitions in their answers, that failed.",
    ("role",),
)
TRANSACTION_SECONDS = Metric(
    "overspill_transaction_seconds",
    "histogram",
    "From the first decision (router) or the begin (executor) of a transaction to its commit.",
    ("role",),
)

# Router.
ROUTER_CONSUMED = Metric(
    "overspill_router_consumed_total", "counter", "Records taken.", ("source",)
)
ROUTER_DECISIONS = Metric(
    "overspill_router_decisions_total",
    "counter",
    "Decisions by pool (none where nothing was routed), reason and mode.",
    ("pool", "reason", "mode"),
)
ROUTER_DEAD_LETTERS = Metric(
    "overspill_router_dead_letters_total",
    "counter",
    "Records that could not become a request.",
    ("category",),
)
ROUTER_DUPLICATES = Metric(
    "overspill_router_duplicates_total", "counter", "Requests seen before, given no second result."
)
ROUTER_DROPPED_HEADERS = Metric(
    "overspill_router_dropped_headers_total",
    "counter",
    "Headers named overspill-* that callers sent.",
)
ROUTER_BATCH_RECORDS = Metric(
    "overspill_router_batch_records", "histogram", "Records a transaction.", (), BATCH_BUCKETS
)
ROUTER_SNAPSHOT_AGE_SECONDS = Metric(
    "overspill_router_snapshot_age_seconds",
    "gauge",
    "Age of the snapshot in use, on this process's clock.",
)
ROUTER_MODELS_REVISION = Metric(
    "overspill_router_models_revision", "gauge", "Revision of the model registry in use."
)
ROUTER_MODE = Metric("overspill_router_mode", "gauge", "1 for the mode in force.", ("mode",))
SHADOW_DECISIONS = Metric(
    "overspill_shadow_decisions_total",
    "counter",
    "With a shadow policy: decisions by pool and by the pool it would choose (none: not routed).",
    ("pool", "shadow_pool"),
)
SHADOW_OTHERWISE = Metric(
    "overspill_shadow_otherwise_total",
    "counter",
    "Decisions whose pool or node the shadow policy would choose otherwise.",
)
SHADOW_COST = Metric(
    "overspill_shadow_cost_total",
    "counter",
    "Cost expected of the choices of the routing policy and of its shadow, on live nodes.",
    ("side",),
)
SHADOW_SLO = Metric(
    "overspill_shadow_slo_total",
    "counter",
    "Objectives expected to be met by the choices of the routing policy and of its shadow.",
    ("side", "met"),
)
SHADOW_FAILURES = Metric(
    "overspill_shadow_failures_total",
    "counter",
    "Errors that the shadow policy raised; they harm nothing.",
)

# Control.
LAG_RECORDS = Metric(
    "overspill_unfinished_records", "gauge", "Records routed and not finished.", ("pool",)
)
LAG_WORK = Metric(
    "overspill_unfinished_work_gflops",
    "gauge",
    "Estimated GFLOPs of what is unfinished; requests without an estimate add nothing.",
    ("pool",),
)
LAG_WORK_SECONDS = Metric(
    "overspill_unfinished_work_seconds",
    "gauge",
    "That work by the rate at which work is finished, else records x latency / slots.",
    ("pool",),
)
LAG_AGE = Metric(
    "overspill_oldest_unfinished_seconds",
    "gauge",
    "Since the oldest unfinished record arrived, looked up once a second.",
    ("pool",),
)
LAG_DRAIN = Metric(
    "overspill_drain_seconds",
    "gauge",
    "Unfinished by the rate of finishing; absent while nothing is finished.",
    ("pool",),
)
ARRIVAL_RATE = Metric(
    "overspill_arrival_rate_records",
    "gauge",
    "Records routed to the pool a second, over 10 s.",
    ("pool",),
)
FINISH_RATE = Metric(
    "overspill_finish_rate_records", "gauge", "Records finished a second, over 10 s.", ("pool",)
)
QUEUE_DEPTH = Metric(
    "overspill_queue_depth_records",
    "gauge",
    "Unfinished beyond slots, and where no node lives.",
    ("pool",),
)
SLOTS = Metric("overspill_slots", "gauge", "Slots of live nodes.", ("pool",))
FREE_SLOTS = Metric("overspill_free_slots", "gauge", "Free slots of live nodes.", ("pool",))
LIVE_NODES = Metric("overspill_live_nodes", "gauge", "Nodes that reported within 3 s.", ("pool",))
THRESHOLD = Metric(
    "overspill_threshold_records", "gauge", "Queue depth of gpu at which work overflows."
)
ORDERS = Metric(
    "overspill_orders", "gauge", "Operators' orders that stand, by what they order.", ("what",)
)
LAG_CLAMPS = Metric(
    "overspill_lag_clamps_total", "counter", "Readings of a partition below zero, shown as 0."
)
WORK_CLAMPS = Metric(
    "overspill_work_clamps_total",
    "counter",
    "Readings of a partition's work below zero, or above it with no record left, shown as 0.",
)
LAG_HOLES = Metric(
    "overspill_lag_holes",
    "gauge",
    "Pool partitions whose lag stands above 0 with nothing in flight.",
)
PROBE_SECONDS = Metric("overspill_probe_seconds", "histogram", "One reading of all counts.")
SNAPSHOTS = Metric("overspill_snapshots_total", "counter", "Snapshots published.")
CONTROL_ACTIVE = Metric(
    "overspill_control_active", "gauge", "1 on the control worker that publishes."
)
CONTROL_UNREADABLE = Metric(
    "overspill_control_unreadable_total",
    "counter",
    "Records of nodes, lag or orders that were none and changed nothing.",
    ("topic",),
)

# Executor.
EXECUTOR_RESULTS = Metric(
    "overspill_executor_results_total", "counter", "Terminal results.", ("pool", "status")
)
EXECUTOR_ERRORS = Metric(
    "overspill_executor_errors_total", "counter", "Results with status error.", ("pool", "category")
)
EXECUTOR_REFUSALS = Metric(
    "overspill_executor_refusals_total",
    "counter",
    "Requests handed back to the routers.",
    ("pool", "category"),
)
EXECUTOR_RETRIES = Metric(
    "overspill_executor_retries_total", "counter", "Attempts repeated on the node.", ("pool",)
)
EXECUTOR_RUN_SECONDS = Metric(
    "overspill_executor_run_seconds", "histogram", "Time in the slot.", ("pool",)
)
EXECUTOR_WAIT_SECONDS = Metric(
    "overspill_executor_wait_seconds", "histogram", "Decision to slot.", ("pool", "priority")
)
EXECUTOR_BUSY = Metric("overspill_executor_busy_slots", "gauge", "Slots in use.", ("pool",))
EXECUTOR_QUEUED = Metric(
    "overspill_executor_queued_records", "gauge", "Read and waiting for a slot.", ("pool",)
)
EXECUTOR_ENGINE_REQUESTS = Metric(
    "overspill_executor_engine_requests",
    "gauge",
    "Requests in the engine by its own word, other clients' too: running, and waiting there.",
    ("pool", "state"),
)
EXECUTOR_ENGINE_KV = Metric(
    "overspill_executor_engine_kv_used_ratio",
    "gauge",
    "Share of the engine's KV cache in use, by its own word.",
    ("pool",),
)
EXECUTOR_COST = Metric(
    "overspill_executor_cost_total", "counter", "Cost coefficient x slot-seconds.", ("pool",)
)
EXECUTOR_SLO = Metric(
    "overspill_executor_slo_total",
    "counter",
    "Results with an objective, by whether they met it.",
    ("pool", "met"),
)
EXECUTOR_DEAD_LETTERS = Metric(
    "overspill_executor_dead_letters_total",
    "counter",
    "Pool records that could not be read.",
    ("category",),
)

ALL = tuple(declared for declared in list(globals().values()) if isinstance(declared, Metric))
