"""Metrics of a router: what it took, what it decided and why, how much it knew."""

from __future__ import annotations

from schemas.metrics.declaration import BATCH_BUCKETS, NO_ACTION, Metric

CONSUMED = Metric(
    "overspill_router_consumed_total",
    "counter",
    "records",
    "Records taken.",
    "0 a second while requests wait: no router has the partition; look at `overspill_ready`.",
    ("source",),
)
DECISIONS = Metric(
    "overspill_router_decisions_total",
    "counter",
    "requests",
    "Decisions by pool (none where nothing was routed), reason and mode.",
    "`unroutable` rising: models or pins that no pool may run, `overspill models list`. `waiting`: "
    "a pool is down. `fallback`: the fleet is full.",
    ("pool", "reason", "mode"),
)
DEAD_LETTERS = Metric(
    "overspill_router_dead_letters_total",
    "counter",
    "records",
    "Records that could not become a request.",
    "Rising: a producer sends what is no request; read some from `dead-letter`, then `overspill "
    "redrive` once it is mended.",
    ("category",),
)
DUPLICATES = Metric(
    "overspill_router_duplicates_total",
    "counter",
    "requests",
    "Requests seen before, given no second result.",
    "Rising: a producer sends again, it may lack idempotence.",
)
DROPPED_HEADERS = Metric(
    "overspill_router_dropped_headers_total",
    "counter",
    "events",
    "Headers named overspill-* that callers sent.",
    "Above 0: somebody produces results or pool records to `requests`.",
)
SLO_MISSED = Metric(
    "overspill_router_slo_missed_total",
    "counter",
    "requests",
    "Requests with an objective that a router ended, expired or unroutable: none was met.",
    "As the misses of `overspill_executor_slo_total`, with which it makes the SLO.",
)
BATCH_RECORDS = Metric(
    "overspill_router_batch_records",
    "histogram",
    "records",
    "Records a transaction.",
    "Near 1,000 all the time: routers are behind, add some.",
    (),
    BATCH_BUCKETS,
)
SNAPSHOT_AGE_SECONDS = Metric(
    "overspill_router_snapshot_age_seconds",
    "gauge",
    "seconds",
    "Age of the snapshot in use, on this process's clock.",
    "Above 2: control does not speak or is not heard, the router is stale.",
)
MODELS_REVISION = Metric(
    "overspill_router_models_revision",
    "gauge",
    "events",
    "Revision of the model registry in use.",
    "Routers that differ for a minute: one does not hear `models`.",
)
MODE = Metric(
    "overspill_router_mode",
    "gauge",
    "flag",
    "1 for the mode in force.",
    "stale or blind: start control, or see why it does not speak.",
    ("mode",),
)
SHADOW_DECISIONS = Metric(
    "overspill_shadow_decisions_total",
    "counter",
    "requests",
    "With a shadow policy: decisions by pool and by the pool it would choose (none: not routed).",
    NO_ACTION,
    ("pool", "shadow_pool"),
)
SHADOW_OTHERWISE = Metric(
    "overspill_shadow_otherwise_total",
    "counter",
    "requests",
    "Decisions whose pool or node the shadow policy would choose otherwise.",
    NO_ACTION,
)
SHADOW_COST = Metric(
    "overspill_shadow_cost_total",
    "counter",
    "cost",
    "Cost expected of the choices of the routing policy and of its shadow, on live nodes.",
    "The shadow's lower at equal objectives: route by it.",
    ("side",),
)
SHADOW_SLO = Metric(
    "overspill_shadow_slo_total",
    "counter",
    "requests",
    "Objectives expected to be met by the choices of the routing policy and of its shadow.",
    NO_ACTION,
    ("side", "met"),
)
SHADOW_FAILURES = Metric(
    "overspill_shadow_failures_total",
    "counter",
    "events",
    "Errors that the shadow policy raised; they harm nothing.",
    "Above 0: do not route by that policy; please report it.",
)

ALL = (
    CONSUMED,
    DECISIONS,
    DEAD_LETTERS,
    DUPLICATES,
    DROPPED_HEADERS,
    SLO_MISSED,
    BATCH_RECORDS,
    SNAPSHOT_AGE_SECONDS,
    MODELS_REVISION,
    MODE,
    SHADOW_DECISIONS,
    SHADOW_OTHERWISE,
    SHADOW_COST,
    SHADOW_SLO,
    SHADOW_FAILURES,
)
