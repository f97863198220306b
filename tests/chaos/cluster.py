"""The broker of a chaos run: one of our own can be stopped, killed, filled up and cut off.

Owns the process and its second listener, which advertises the port of a proxy. Knows no topic and
no role.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from typing_extensions import Self

from deploy.local.kafka import Broker, start_broker
from deploy.local.kafka import broker as embedded
from deploy.local.kafka.configuration import server_properties
from runtime.ports import LOOPBACK, free_port
from tests.waiting import until

WATCH_S = 0.02
ENDS_WITHIN_S = 180.0
"""A broker without room dies of its next write, and writes little."""


class Cluster:
    """One broker, if it is ours; a context manager that starts and ends it.

    Attributes:
        port: where the broker listens itself.
        proxy_port: what its other listener says its address is.
        proxied_port: where that listener is in truth.
    """

    def __init__(self, folder: Path) -> None:
        self.port, self.proxy_port, self.proxied_port = free_port(), free_port(), free_port()
        self.folder = folder
        self._broker: Broker | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return the address of the broker itself."""
        return f"{LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._broker is not None:
            self._broker.stop()

    async def start(self) -> None:
        """Start it, or start it again; it answers on return."""
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """End it as its owner does."""
        await asyncio.to_thread(self._running.stop)

    async def terminate(self) -> None:
        """Tell the broker's own process to stop."""
        os.kill(self._running.pid, signal.SIGTERM)
        await self.ended()

    async def kill(self) -> None:
        """End it as a power cut would, but for what the kernel still writes."""
        os.kill(self._running.pid, signal.SIGKILL)
        await self.ended()

    async def ended(self) -> None:
        """Return once it has ended by itself."""
        await until(lambda: not self._running.is_alive, ENDS_WITHIN_S, poll_s=WATCH_S)

    @property
    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._running.is_alive

    @property
    def _running(self) -> Broker:
        assert self._broker is not None
        return self._broker

    def _start(self) -> None:
        with self._second_listener():
            self._broker = start_broker(port=self.port, data_dir=self.folder, progress=print)

    @contextmanager
    def _second_listener(self) -> Iterator[None]:
        """Have the broker told of both; nobody but us needs a setting for it."""

        def settings(**told: Any) -> str:
            said = server_properties(**told)
            lines = dict(line.split("=", 1) for line in said.splitlines())
            lines["listeners"] += f",PROXIED://{LOOPBACK}:{self.proxied_port}"
            lines["advertised.listeners"] += f",PROXIED://{LOOPBACK}:{self.proxy_port}"
            lines["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
            return "".join(f"{name}={value}\n" for name, value in lines.items())

        with mock.patch.object(embedded, "server_properties", settings):
            yield
