"""Metrics of a node: what it ran, how it ended, what it cost, what waits."""

from __future__ import annotations

from schemas.metrics.declaration import NO_ACTION, Metric

RESULTS = Metric(
    "overspill_executor_results_total",
    "counter",
    "requests",
    "Terminal results.",
    "Errors rising: their categories are in `overspill_executor_errors_total`.",
    ("pool", "status"),
)
ERRORS = Metric(
    "overspill_executor_errors_total",
    "counter",
    "requests",
    "Results with status error.",
    "backend-error, unavailable: look at the engine behind the node. bad-request and the like: "
    "tell the callers.",
    ("pool", "category"),
)
REFUSALS = Metric(
    "overspill_executor_refusals_total",
    "counter",
    "requests",
    "Requests handed back to the routers.",
    "Rising: the engine is full or failing; look at it, drain the node meanwhile.",
    ("pool", "category"),
)
RETRIES = Metric(
    "overspill_executor_retries_total",
    "counter",
    "events",
    "Attempts repeated on the node.",
    "Rising: the engine answers 429 or 503; it has fewer slots than the node says.",
    ("pool",),
)
RUN_SECONDS = Metric(
    "overspill_executor_run_seconds",
    "histogram",
    "seconds",
    "Time in the slot.",
    "One node's far above its pool's: drain it and look at its device.",
    ("pool",),
)
WAIT_SECONDS = Metric(
    "overspill_executor_wait_seconds",
    "histogram",
    "seconds",
    "Decision to slot.",
    "realtime's p99 near its objective: add slots to the pool that serves it.",
    ("pool", "priority"),
)
END_TO_END_SECONDS = Metric(
    "overspill_executor_end_to_end_seconds",
    "histogram",
    "seconds",
    "Arrival to result.",
    "Rising while run seconds do not: requests wait, see the wait and the lag.",
    ("pool", "priority"),
)
BUSY = Metric(
    "overspill_executor_busy_slots", "gauge", "slots", "Slots in use.", NO_ACTION, ("pool",)
)
QUEUED = Metric(
    "overspill_executor_queued_records",
    "gauge",
    "records",
    "Read and waiting for a slot.",
    NO_ACTION,
    ("pool",),
)
YIELDING = Metric(
    "overspill_executor_yielding_records",
    "gauge",
    "records",
    "Waiting for a slot, and leaving the last free one to other records for now.",
    NO_ACTION,
    ("pool",),
)
ENGINE_REQUESTS = Metric(
    "overspill_executor_engine_requests",
    "gauge",
    "requests",
    "Requests in the engine by its own word, other clients' too: running, and waiting there.",
    "Waiting for long: the engine takes fewer at once than the node has slots, or serves others.",
    ("pool", "state"),
)
ENGINE_KV = Metric(
    "overspill_executor_engine_kv_used_ratio",
    "gauge",
    "ratio",
    "Share of the engine's KV cache in use, by its own word.",
    "Near 1: it preempts and computes again; give the node fewer slots.",
    ("pool",),
)
COST = Metric(
    "overspill_executor_cost_total",
    "counter",
    "cost",
    "Cost coefficient x slot-seconds.",
    "Rising faster than requests: look at which pool; `overspill cost` says whose it is.",
    ("pool",),
)
SLO = Metric(
    "overspill_executor_slo_total",
    "counter",
    "requests",
    "Results with an objective, by whether they met it.",
    "Misses burn the error budget: the alerts OverspillSLOBurn* say how fast (docs/runbook.md).",
    ("pool", "met"),
)
DEAD_LETTERS = Metric(
    "overspill_executor_dead_letters_total",
    "counter",
    "records",
    "Pool records that could not be read.",
    "Above 0: somebody else writes to a pool topic, or a newer router does.",
    ("category",),
)
MODEL_RESULTS = Metric(
    "overspill_executor_model_results_total",
    "counter",
    "requests",
    "Terminal results by model.",
    "One model's errors rising: its weights or its engine.",
    ("pool", "model", "status"),
)
TENANT_COST = Metric(
    "overspill_executor_tenant_cost_total",
    "counter",
    "cost",
    "Cost by tenant.",
    "One tenant's share growing: talk to them; exact sums for bills are those of `overspill cost`.",
    ("pool", "tenant"),
)

CANARY_RUNS = Metric(
    "overspill_executor_canary_runs_total",
    "counter",
    "events",
    "Stays in a slot of requests marked as canaries, which are in no cost.",
    "More than control has sent: somebody marks own requests so; find out by `overspill results`.",
    ("pool",),
)

ALL = (
    CANARY_RUNS,
    RESULTS,
    ERRORS,
    REFUSALS,
    RETRIES,
    RUN_SECONDS,
    WAIT_SECONDS,
    END_TO_END_SECONDS,
    BUSY,
    QUEUED,
    YIELDING,
    ENGINE_REQUESTS,
    ENGINE_KV,
    COST,
    SLO,
    DEAD_LETTERS,
    MODEL_RESULTS,
    TENANT_COST,
)
