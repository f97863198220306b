"""Recording rules: what alerts and dashboards ask for again and again, and over days."""

from __future__ import annotations

from typing import NamedTuple

from schemas.metrics import control, executor, router

SLO_WINDOWS = ("5m", "30m", "1h", "6h", "3d")
"""Those of the burn rate alerts, in pairs of a short and a long one."""


class Recording(NamedTuple):
    """One recording rule."""

    name: str
    expr: str


def slo_errors(window: str) -> str:
    """Return the name of the share of requests with an objective that missed it."""
    return f"overspill:slo_errors:ratio_rate{window}"


def slo_requests(window: str) -> str:
    """Return the name of the number of requests with an objective."""
    return f"overspill:slo_requests:increase{window}"


OVERFLOW_ACTIVE = "overspill:overflow:active"
DECISIONS = "overspill:decisions:rate5m"
RESULTS = "overspill:results:rate5m"
DEAD_LETTERS = "overspill:dead_letters:rate5m"
COST = "overspill:cost:rate5m"
SAVED = "overspill:saved:ratio_rate1h"
END_TO_END_P99 = "overspill:end_to_end_seconds:p99_5m"


def _missed(window: str) -> str:
    return (
        f'(sum(rate({executor.SLO.name}{{met="false"}}[{window}])) or vector(0))'
        f" + (sum(rate({router.SLO_MISSED.name}[{window}])) or vector(0))"
    )


def _all(window: str, function: str = "rate") -> str:
    return (
        f"(sum({function}({executor.SLO.name}[{window}])) or vector(0))"
        f" + (sum({function}({router.SLO_MISSED.name}[{window}])) or vector(0))"
    )


def _expected(side: str) -> str:
    return f'sum(rate({control.EXPECTED_COST.name}{{side="{side}"}}[1h]))'


RULES: tuple[Recording, ...] = (
    *(Recording(slo_errors(w), f"({_missed(w)}) / ({_all(w)})") for w in SLO_WINDOWS),
    *(Recording(slo_requests(w), _all(w, "increase")) for w in ("1h", "6h", "3d")),
    Recording(
        OVERFLOW_ACTIVE,
        f'max({control.QUEUE_DEPTH.name}{{pool="gpu"}}) >= bool max({control.THRESHOLD.name})',
    ),
    Recording(DECISIONS, f"sum by (pool, reason) (rate({router.DECISIONS.name}[5m]))"),
    Recording(RESULTS, f"sum by (pool, status) (rate({executor.RESULTS.name}[5m]))"),
    Recording(
        DEAD_LETTERS,
        f"sum by (category) (rate({router.DEAD_LETTERS.name}[5m])"
        f" or rate({executor.DEAD_LETTERS.name}[5m]))",
    ),
    Recording(COST, f"sum by (pool) (rate({executor.COST.name}[5m]))"),
    Recording(SAVED, f"1 - {_expected('routed')} / {_expected('gpu-only')}"),
    Recording(
        END_TO_END_P99,
        "histogram_quantile(0.99, sum by (le, pool, priority) "
        f"(rate({executor.END_TO_END_SECONDS.name}_bucket[5m])))",
    ),
)
