"""What `router` and `control` share: how a role is opened, and run until it is told to stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import TypeVar

from aiohttp import web

from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.metrics import Metrics
from runtime.process import Role, run_loop, run_role
from runtime.settings import Settings

AnyRole = TypeVar("AnyRole", bound=Role)
Opened = Callable[[Settings, Connection, Metrics], Awaitable[AnyRole]]
Routes = Callable[[AnyRole], Iterable[web.RouteDef]]


def serve(
    name: str, settings: Settings, opened: Opened[AnyRole], routes: Routes[AnyRole] = lambda _: ()
) -> None:
    """Open the role and run it, with its metrics and health, until it ends or is told to.

    Args:
        name: of the role.
        settings: of the process.
        opened: returns the role.
        routes: returns those of the role's own pages.
    """
    metrics = Metrics(name, version("overspill"))

    async def main() -> None:
        role = await opened(settings, connection_of(settings), metrics)
        await run_role(role, settings, metrics, routes(role))

    run_loop(main)
