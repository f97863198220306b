"""The service level objective: what share of requests with an objective meets it."""

from __future__ import annotations

TARGET = 0.99
"""Of requests that bring an objective, or are realtime. The alerts say it too (tested)."""
PAGE_BURN = 14.4
"""Times the rate at which the error budget of 30 days lasts 30 days: 2 % of it go in an hour."""
TICKET_BURN = 1.0


def burn_rate(met: int, missed: int) -> float | None:
    """Return how many times faster than planned the budget is spent; None without requests."""
    ended = met + missed
    return (missed / ended) / (1 - TARGET) if ended else None
