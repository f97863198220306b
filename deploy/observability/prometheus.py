"""Writes Prometheus' rule files. Strings are JSON's, which YAML reads as they are."""

from __future__ import annotations

import json

from deploy.observability.alerts import ALERTS
from deploy.observability.recording import RULES

RUNBOOK = "docs/runbook.md"
"""Relative: where you publish it is not known here."""


def recording_rules() -> str:
    """Return the file of recording rules."""
    lines = ["groups:", "  - name: overspill-recording", "    rules:"]
    for rule in RULES:
        lines += [f"      - record: {rule.name}", f"        expr: {json.dumps(rule.expr)}"]
    return "\n".join(lines) + "\n"


def alert_rules() -> str:
    """Return the file of alerts."""
    lines = ["groups:", "  - name: overspill-alerts", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expr)}",
            f"        for: {alert.lasting}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          description: {json.dumps(alert.meaning)}",
            f"          runbook_url: {json.dumps(f'{RUNBOOK}#{alert.name.lower()}')}",
        ]
    return "\n".join(lines) + "\n"
