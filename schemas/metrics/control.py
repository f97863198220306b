"""Metrics of a control worker: what its last snapshot says, and how it fares itself."""

from __future__ import annotations

from schemas.metrics.declaration import NO_ACTION, Metric

UNDECIDED = Metric(
    "overspill_undecided_records",
    "gauge",
    "records",
    "Records of `requests` beyond what routers committed, by offsets: markers of transactional "
    "producers count too.",
    "Rising: routers are dead, not ready, or too few; look at `overspill_ready` of routers.",
)
EXPECTED_COST = Metric(
    "overspill_expected_cost_total",
    "counter",
    "cost",
    "Cost expected of routed requests where they went (routed) and had they all run on gpu "
    "(gpu-only); of those for which nodes have measured both.",
    "routed above gpu-only: cheap slots are too slow to be cheap by the request; see `predictive`.",
    ("side",),
)
CANARY_PRODUCED = Metric(
    "overspill_canary_produced_total",
    "counter",
    "requests",
    "Canaries sent through a compute type (setting `canary.model`).",
    "Fewer than `overspill_executor_canary_runs_total`: somebody claims to be a canary.",
    ("compute_type",),
)
CANARY_RECEIVED = Metric(
    "overspill_canary_received_total",
    "counter",
    "requests",
    "Canaries whose result came back; produced - received are lost or on their way.",
    "Status error or expired: that compute type serves nobody well; look at its nodes.",
    ("compute_type", "status"),
)
CANARY_LOST = Metric(
    "overspill_canary_lost_total",
    "counter",
    "requests",
    "Canaries without a result 75 s after they were sent.",
    "Above 0: requests go in and do not come out; see OverspillCanaryLost (docs/runbook.md).",
    ("compute_type",),
)
CANARY_SECONDS = Metric(
    "overspill_canary_seconds",
    "histogram",
    "seconds",
    "From a canary's sending to its result's being read.",
    "What any caller would wait at least; rising: see waiting and running times.",
    ("compute_type",),
)
LAG_RECORDS = Metric(
    "overspill_unfinished_records",
    "gauge",
    "records",
    "Records routed and not finished.",
    "Judge it by its age and by what is finished a second, not by its size.",
    ("pool",),
)
LAG_WORK = Metric(
    "overspill_unfinished_work_gflops",
    "gauge",
    "GFLOP",
    "Estimated GFLOPs of what is unfinished; requests without an estimate add nothing.",
    NO_ACTION,
    ("pool",),
)
LAG_WORK_SECONDS = Metric(
    "overspill_unfinished_work_seconds",
    "gauge",
    "seconds",
    "That work by the rate at which work is finished, else records x latency / slots.",
    "Longer than the callers' patience: add nodes to the pool.",
    ("pool",),
)
LAG_AGE = Metric(
    "overspill_oldest_unfinished_seconds",
    "gauge",
    "seconds",
    "Since the oldest unfinished record arrived, looked up once a second.",
    "Rising by a second a second: that partition's owner does nothing; `overspill status --lag`.",
    ("pool",),
)
LAG_DRAIN = Metric(
    "overspill_drain_seconds",
    "gauge",
    "seconds",
    "Unfinished by the rate of finishing; absent while nothing is finished.",
    "Longer than the callers' patience: add nodes to the pool.",
    ("pool",),
)
ARRIVAL_RATE = Metric(
    "overspill_arrival_rate_records",
    "gauge",
    "records",
    "Records routed to the pool a second, over 10 s.",
    "Above the finish rate for minutes: the pool falls behind, add nodes.",
    ("pool",),
)
FINISH_RATE = Metric(
    "overspill_finish_rate_records",
    "gauge",
    "records",
    "Records finished a second, over 10 s.",
    "0 with unfinished records: the pool's nodes are dead or stuck.",
    ("pool",),
)
QUEUE_DEPTH = Metric(
    "overspill_queue_depth_records",
    "gauge",
    "records",
    "Unfinished beyond slots, and where no node lives.",
    "gpu at the threshold: work overflows, as meant. All pools rising: the fleet is too small.",
    ("pool",),
)
SLOTS = Metric(
    "overspill_slots",
    "gauge",
    "slots",
    "Slots of live nodes.",
    "Less than deployed: `overspill nodes list`.",
    ("pool",),
)
FREE_SLOTS = Metric(
    "overspill_free_slots",
    "gauge",
    "slots",
    "Free slots of live nodes.",
    "0 in all pools for minutes: add nodes, or have producers send less.",
    ("pool",),
)
LIVE_NODES = Metric(
    "overspill_live_nodes",
    "gauge",
    "nodes",
    "Nodes that reported within 3 s.",
    "Fewer than deployed: `overspill nodes list`, then that node's log.",
    ("pool",),
)
DOWN_NODES = Metric(
    "overspill_down_nodes",
    "gauge",
    "nodes",
    "Nodes that said no good-bye and do not live, until they are forgotten after 10 min.",
    "Above 0: `overspill nodes list` says which and why; look at its log.",
    ("pool",),
)
SLOW_NODES = Metric(
    "overspill_slow_nodes",
    "gauge",
    "nodes",
    "Live nodes on which runs take twice as long as on others of their kind, or longer.",
    "Above 0: the page says which; drain it and look at its device.",
    ("pool",),
)
THRESHOLD = Metric(
    "overspill_threshold_records",
    "gauge",
    "records",
    "Queue depth of gpu at which work overflows.",
    'Swinging: `policy.threshold = "stable"`. Stuck: `overspill threshold show` tells of a freeze.',
)
ORDERS = Metric(
    "overspill_orders",
    "gauge",
    "events",
    "Operators' orders that stand, by what they order.",
    "Above 0 when nobody works on the system: `overspill status` says whose they are.",
    ("what",),
)
LAG_CLAMPS = Metric(
    "overspill_lag_clamps_total",
    "counter",
    "events",
    "Readings of a partition below zero, shown as 0.",
    "Rising steadily: counts were lost; see offsets in docs/reliability.md.",
)
WORK_CLAMPS = Metric(
    "overspill_work_clamps_total",
    "counter",
    "events",
    "Readings of a partition's work below zero, or above it with no record left, shown as 0.",
    "Rising steadily: routers or nodes of two releases count differently; end the roll-out.",
)
LAG_HOLES = Metric(
    "overspill_lag_holes",
    "gauge",
    "partitions",
    "Pool partitions whose lag stands above 0 with nothing in flight.",
    "Above 0: records were lost to their node; restart that partition's owner; please report it.",
)
PROBE_SECONDS = Metric(
    "overspill_probe_seconds",
    "histogram",
    "seconds",
    "One reading of all counts.",
    "p99 above 1 s: brokers are slow, and such readings are dropped.",
)
SNAPSHOTS = Metric(
    "overspill_snapshots_total",
    "counter",
    "events",
    "Snapshots published.",
    "None for 2 s: routers are stale; look at this worker's /readyz.",
)
ACTIVE = Metric(
    "overspill_control_active",
    "gauge",
    "flag",
    "1 on the control worker that publishes.",
    "0 on all for over 10 s: none speaks; start one, or look at /readyz.",
)
UNREADABLE = Metric(
    "overspill_control_unreadable_total",
    "counter",
    "records",
    "Records of nodes, lag, orders or decisions that were none and changed nothing.",
    "Rising: something else writes to that topic, or a newer release does.",
    ("topic",),
)

ALL = (
    UNDECIDED,
    EXPECTED_COST,
    CANARY_PRODUCED,
    CANARY_RECEIVED,
    CANARY_LOST,
    CANARY_SECONDS,
    LAG_RECORDS,
    LAG_WORK,
    LAG_WORK_SECONDS,
    LAG_AGE,
    LAG_DRAIN,
    ARRIVAL_RATE,
    FINISH_RATE,
    QUEUE_DEPTH,
    SLOTS,
    FREE_SLOTS,
    LIVE_NODES,
    DOWN_NODES,
    SLOW_NODES,
    THRESHOLD,
    ORDERS,
    LAG_CLAMPS,
    WORK_CLAMPS,
    LAG_HOLES,
    PROBE_SECONDS,
    SNAPSHOTS,
    ACTIVE,
    UNREADABLE,
)
