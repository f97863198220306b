"""Who connects to the brokers, and what for. Imports nothing: a help text needs it.

What each may do there is in `schemas.access`.
"""

from __future__ import annotations

from enum import Enum


class Role(str, Enum):
    """Who connects to the brokers."""

    ROUTER = "router"
    CONTROL = "control"
    EXECUTOR = "executor"
    CLIENT = "client"
    MONITOR = "monitor"
    OPERATOR = "operator"


WHAT_FOR = {
    Role.ROUTER: "routers",
    Role.CONTROL: "control workers",
    Role.EXECUTOR: "nodes of the pools named",
    Role.CLIENT: "services that send requests and read results",
    Role.MONITOR: "people who look: status, results, decisions, cost; no change of anything",
    Role.OPERATOR: "people who create topics, give orders, change the registry, redrive",
}
