"""What an alert is: all that Prometheus and the runbook need to know of it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["page", "ticket"]
"""A page is for what hurts callers now and does not mend itself; a ticket waits for the morning."""


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
