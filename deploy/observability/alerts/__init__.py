"""Alerts, each with what it means and what to do: Prometheus' rules and the runbook are made of it.

The page of `overspill control` says the same under the same names.
"""

from __future__ import annotations

from deploy.observability.alerts import callers, pools, processes

ALERTS = (*callers.ALERTS, *pools.ALERTS, *processes.ALERTS)
