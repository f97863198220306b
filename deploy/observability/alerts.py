"""Alerts, each with what it means and what to do: Prometheus' rules and the runbook are made of it.

A page is for what hurts callers now and does not mend itself; a ticket waits for the morning. The
page of `overspill control` says the same under the same names.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from deploy.observability.recording import (
    DEAD_LETTERS,
    DECISIONS,
    OVERFLOW_ACTIVE,
    RESULTS,
    slo_errors,
    slo_requests,
)
from schemas.metrics import control, executor, process, router
from schemas.slo import PAGE_BURN, TARGET, TICKET_BURN

BUDGET = round(1 - TARGET, 6)
MEDIUM_BURN = 6.0
"""Spends the budget of 30 days in five."""
REQUESTS_MIN = 100
"""In the long window: of fewer a single miss would page."""


Severity = Literal["page", "ticket"]


class Alert(NamedTuple):
    """One alert.

    Attributes:
        lasting: for how long `expr` must hold, as Prometheus writes it.
        summary: one line; labels as Prometheus' templates.
        meaning: what is going on and whom it hurts.
        steps: what to do, in order.
    """

    name: str
    severity: Severity
    expr: str
    lasting: str
    summary: str
    meaning: str
    steps: tuple[str, ...]


def _burn(name: str, severity: Severity, rate: float, short: str, long: str) -> Alert:
    limit = round(rate * BUDGET, 6)
    return Alert(
        f"OverspillSLOBurn{name}",
        severity,
        f"{slo_errors(long)} > {limit} and {slo_errors(short)} > {limit} "
        f"and {slo_requests(long)} > {REQUESTS_MIN}",
        "1m",
        f"Objectives are missed at {rate:g} times the rate that the error budget allows",
        f"Over {long} and still over {short}, more than {limit:.1%} of the requests with an "
        f"objective "
        f"missed it; {TARGET:.0%} should meet it. Expired and unroutable requests count as missed.",
        (
            (
                "Open the page of `overspill control`: a pool or node that is down, a slow node "
                "or a full fleet is named on top."
            ),
            (
                "Else compare `overspill_executor_wait_seconds` with "
                "`overspill_executor_run_seconds` by "
                "pool: what waits needs slots, what runs long has a slow engine."
            ),
            (
                "Nothing of that: see what callers ask for. An objective below a pool's own run "
                "time can only be met on another pool."
            ),
        ),
    )


ALERTS: tuple[Alert, ...] = (
    _burn("Fast", "page", PAGE_BURN, "5m", "1h"),
    _burn("Medium", "page", MEDIUM_BURN, "30m", "6h"),
    _burn("Slow", "ticket", TICKET_BURN, "6h", "3d"),
    Alert(
        "OverspillLagAgeHigh",
        "ticket",
        f"max by (pool) ({control.LAG_AGE.name}) > 300",
        "5m",
        "The oldest unfinished record of pool {{ $labels.pool }} waits for over 5 minutes",
        "Age says what a number of records does not. Batch work may wait so long by choice; work "
        "with an objective has missed it.",
        (
            "`overspill status --lag`: is it one partition or all? One: its node; all: the pool.",
            "Compare arriving and finishing rates. Arriving is higher: add nodes to the pool.",
            "Nothing finishes: see OverspillConsumerStalled.",
        ),
    ),
    Alert(
        "OverspillLagGrowing",
        "ticket",
        f"max by (pool) (deriv({control.LAG_RECORDS.name}[10m])) > 0 "
        f"and max by (pool) ({control.LAG_AGE.name}) > 60",
        "15m",
        "Pool {{ $labels.pool }} has been falling behind for 15 minutes",
        "More is routed to the pool than its nodes finish, and the oldest record waits for over a "
        "minute. It does not end by itself while arrivals stay as they are.",
        (
            (
                "Add nodes to the pool (`overspill executor --pool ...`), or slots to those that "
                "have room."
            ),
            "Are nodes down or slow (OverspillNodeDown, OverspillNodeSlow)? Mend those first.",
            "`overspill pools pause POOL --why TEXT` sends new work elsewhere meanwhile.",
        ),
    ),
    Alert(
        "OverspillConsumerStalled",
        "page",
        f"max by (pool) ({control.LAG_RECORDS.name}) > 0 "
        f"and max by (pool) ({control.FINISH_RATE.name}) == 0 "
        f"and max by (pool) ({control.LIVE_NODES.name}) > 0",
        "2m",
        "Pool {{ $labels.pool }} has unfinished records and finishes none",
        "Nodes live and report, and no request of the pool has ended for minutes: engines hang, or "
        "runs take longer than that.",
        (
            "The page's nodes: busy slots with a mean of minutes are long runs, and no fault.",
            "Look at the engine behind each node; restart the node, what it had is run again.",
            (
                "A partition that is `blocked` or `offsets-lost`: docs/reliability.md, then "
                "`overspill "
                "offsets accept`."
            ),
        ),
    ),
    Alert(
        "OverspillPoolDown",
        "page",
        f"max by (pool) ({control.LIVE_NODES.name}) == 0 "
        f"and (max by (pool) ({control.LAG_RECORDS.name}) > 0 "
        f'or max by (pool) ({control.LIVE_NODES.name}{{pool="gpu"}}) == 0)',
        "30s",
        "Pool {{ $labels.pool }} has no live node",
        "Without `gpu`, realtime and strict work waits, and other work goes to cheaper pools with "
        "free slots. Without another pool, what it holds waits.",
        (
            (
                "Are its processes there? `overspill nodes list`, then their logs: a backend that "
                "fails "
                "its self-test says why."
            ),
            "Start nodes: `overspill executor --pool POOL ...`; they take over within seconds.",
        ),
    ),
    Alert(
        "OverspillNodeDown",
        "ticket",
        f"max by (pool) ({control.DOWN_NODES.name}) > 0",
        "1m",
        "A node of pool {{ $labels.pool }} is down",
        "It stopped reporting without a good-bye, or says that it cannot work. Others of its pool "
        "took its partitions; nothing is lost, and what it ran is run again.",
        (
            "`overspill nodes list` says which and why; then its log.",
            "A restart is safe at any time. Gone for good: it is forgotten after 10 minutes.",
        ),
    ),
    Alert(
        "OverspillNodeSlow",
        "ticket",
        f"max by (pool) ({control.SLOW_NODES.name}) > 0",
        "5m",
        "A node of pool {{ $labels.pool }} takes twice as long as others of its kind",
        "Routers send it less, but what it has is late, and its conversations stay with it.",
        (
            "The page's nodes are sorted by it: `overspill nodes drain NODE --why slow`.",
            "Look at its device: heat, throttling, neighbours, another model in memory.",
            "When it is mended: `overspill nodes resume NODE`.",
        ),
    ),
    Alert(
        "OverspillHole",
        "page",
        f"max({control.LAG_HOLES.name}) > 0",
        "1m",
        "Records count as unfinished that nobody works on",
        "Their node lives and is idle, and nothing has moved for 30 s: records or counts were "
        "lost, "
        "which must not happen.",
        (
            (
                "`overspill status --lag` shows the partition; restart its node: it reads anew "
                "from what is committed."
            ),
            "Keep the logs of that node and of the routers, and report it.",
        ),
    ),
    Alert(
        "OverspillSignalsStale",
        "page",
        f'max by (mode) ({router.MODE.name}{{mode!="normal"}}) > 0',
        "1m",
        "A router decides in mode {{ $labels.mode }}",
        "stale: no snapshot for 2 s, it goes on with what it knew, the threshold stands still. "
        "blind: "
        "for 30 s; realtime goes to the GPU, the rest to the GPU or by key, at any cost, and no "
        "order "
        "is obeyed. Nothing is lost.",
        (
            (
                "Is a control worker active (`overspill_control_active` is 1)? None: start one, or "
                "see "
                "what its /readyz says."
            ),
            "One is: the router does not hear it; look at its log and its way to Kafka.",
        ),
    ),
    Alert(
        "OverspillControlSilent",
        "page",
        f"absent({control.ACTIVE.name} == 1)",
        "1m",
        "No control worker speaks",
        "Routers are stale, and blind after 30 s. A worker that stands by speaks within 10 s: "
        "there "
        "is none, or it cannot.",
        (
            "Start `overspill control`; run two, and this does not come again.",
            "One runs: its /readyz says what it waits for.",
        ),
    ),
    Alert(
        "OverspillRoutersDead",
        "page",
        f"max({control.UNDECIDED.name}) > 0 unless sum(rate({router.CONSUMED.name}[2m])) > 0",
        "1m",
        "Requests wait, and no router takes them",
        "Nothing is routed. Requests are kept in `requests` and will be decided when a router is "
        "back; those with an objective miss it.",
        (
            (
                "Start `overspill router`, or see what each says at /readyz (`offsets-lost` needs "
                "an operator: docs/reliability.md)."
            ),
        ),
    ),
    Alert(
        "OverspillKafkaAway",
        "page",
        f"max({process.READY.name}) == 0",
        "1m",
        "No process of Overspill is ready",
        "As a rule no broker answers. All of them wait and go on by themselves; nothing is lost.",
        (
            "Look at the brokers, and whether these hosts reach them.",
            "Each process says at /readyz what it waits for.",
        ),
    ),
    Alert(
        "OverspillSaturated",
        "page",
        f"sum({control.FREE_SLOTS.name}) == 0 and {OVERFLOW_ACTIVE} == 1",
        "5m",
        "No pool has a free slot, and the queue of gpu is over the threshold",
        "More arrives than all nodes together do: overflow has nowhere to go, and requests wait.",
        (
            "Add nodes; the cheapest pool that meets the objectives first.",
            (
                "Is a node down, slow or draining? Is a pool paused? `overspill status` lists the "
                "orders."
            ),
            "Else have batch producers send less, or let their work wait (`predictive/600`).",
        ),
    ),
    Alert(
        "OverspillFlapping",
        "ticket",
        f"changes({OVERFLOW_ACTIVE}[30m]) > 30",
        "10m",
        "Overflow goes on and off all the time",
        "The queue of gpu swings around the threshold once a minute or more: work changes pools "
        "without need, and caches of conversations are lost.",
        (
            'Set `policy.threshold = "stable"` for control (docs/policy.md).',
            "Or hold it while you look: `overspill threshold freeze --why TEXT`.",
        ),
    ),
    Alert(
        "OverspillDeadLettersRising",
        "ticket",
        f"sum({DEAD_LETTERS}) > 0.01 * (sum({DECISIONS}) or vector(0)) and sum({DEAD_LETTERS}) > "
        f"0.02",
        "5m",
        "Over one in a hundred records is no request",
        "They are kept whole in `dead-letter` with a category; other requests are not held up.",
        (
            "The page shows the categories; read some of `dead-letter` to find the producer.",
            "Once it is mended: `overspill redrive --category NAME --dry-run`, then without it.",
        ),
    ),
    Alert(
        "OverspillErrorsHigh",
        "ticket",
        f'sum({RESULTS}{{status="error"}}) > 0.05 * sum({RESULTS})',
        "5m",
        "Over one in twenty results is an error",
        "Callers get an error result instead of an answer.",
        (
            f"`sum by (pool, category) (rate({executor.ERRORS.name}[5m]))` says which.",
            "backend-error, unavailable, overloaded: look at the engines of that pool.",
            "bad-request, model-not-found, context-too-long: tell the callers.",
        ),
    ),
    Alert(
        "OverspillRebalanceStorm",
        "ticket",
        f"max by (role) (increase({process.ASSIGNMENTS.name}[10m])) > 10",
        "5m",
        "Partitions of the {{ $labels.role }}s change hands all the time",
        "Each change pauses the partitions that move, and makes work run twice.",
        (
            (
                "Which process restarts, or stands still for longer than its session (6 s)? CPU "
                "throttling and memory limits are the usual reasons."
            ),
            "Give each a `kafka.instance_id`: a restart within its session moves nothing then.",
        ),
    ),
    Alert(
        "OverspillCanaryLost",
        "page",
        f"sum by (compute_type) (increase({control.CANARY_LOST.name}[10m])) > 0 "
        "or sum by (compute_type) "
        f'(increase({control.CANARY_RECEIVED.name}{{status!="ok"}}[10m])) > 2',
        "1m",
        "Canaries through {{ $labels.compute_type }} are lost or fail",
        "A request of the control plane's own went in and no result came out within 75 s, or three "
        "in ten minutes ended with an error or expired. What happens to it happens to callers.",
        (
            (
                "A pool that is down or stands still, and routers that do not decide, have alerts "
                "of their own: mend those."
            ),
            "Errors: has that compute type the model of `canary.model`? Else look at its engines.",
            "None of that: a record was lost, which must not happen. Keep the logs, and report it.",
        ),
    ),
    Alert(
        "OverspillSeriesDropped",
        "ticket",
        f"sum by (metric) (increase({process.SERIES_DROPPED.name}[1h])) > 0",
        "5m",
        "Samples of {{ $labels.metric }} are not kept",
        "A label of it has more values than it may have; what is beyond the cap is missing.",
        ("Shorten `metrics.models` and `metrics.tenants`; if they are short, report it.",),
    ),
)
