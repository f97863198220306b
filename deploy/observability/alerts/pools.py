"""What is wrong with pools and nodes: lag, stalls, nodes down or slow, a full fleet."""

from __future__ import annotations

from deploy.observability.alerts.declaration import Alert
from deploy.observability.recording import OVERFLOW_ACTIVE
from schemas.metrics import control

ALERTS: tuple[Alert, ...] = (
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
)
