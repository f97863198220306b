"""What is wrong with the processes: none speaks, none decides, none is ready, all move."""

from __future__ import annotations

from deploy.observability.alerts.declaration import Alert
from schemas.metrics import control, process, router

ALERTS: tuple[Alert, ...] = (
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
        "OverspillSeriesDropped",
        "ticket",
        f"sum by (metric) (increase({process.SERIES_DROPPED.name}[1h])) > 0",
        "5m",
        "Samples of {{ $labels.metric }} are not kept",
        "A label of it has more values than it may have; what is beyond the cap is missing.",
        ("Shorten `metrics.models` and `metrics.tenants`; if they are short, report it.",),
    ),
)
