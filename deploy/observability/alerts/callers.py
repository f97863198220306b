"""What callers notice: missed objectives, errors, records that are no request, lost canaries."""

from __future__ import annotations

from deploy.observability.alerts.declaration import Alert, Severity
from deploy.observability.recording import (
    DEAD_LETTERS,
    DECISIONS,
    RESULTS,
    slo_errors,
    slo_requests,
)
from schemas.metrics import control, executor
from schemas.slo import PAGE_BURN, TARGET, TICKET_BURN

BUDGET = round(1 - TARGET, 6)
MEDIUM_BURN = 6.0
"""Spends the budget of 30 days in five."""
REQUESTS_MIN = 100
"""In the long window: of fewer a single miss would page."""


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
)
