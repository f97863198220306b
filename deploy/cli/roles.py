"""What `router` and `control` share: how a role is opened, and run until it is told to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.metadata import version

from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.metrics import Metrics
from runtime.process import Role, run_loop, run_role
from runtime.settings import Settings

Opened = Callable[[Settings, Connection, Metrics], Awaitable[Role]]


def serve(name: str, settings: Settings, opened: Opened) -> None:
    """Open the role and run it, with its metrics and health, until it ends or is told to."""
    metrics = Metrics(name, version("overspill"))

    async def main() -> None:
        role = await opened(settings, connection_of(settings), metrics)
        await run_role(role, settings, metrics)

    run_loop(main)
