"""A control worker as a process of its own, as `overspill control` runs it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from runtime.logs import start_logging
from runtime.metrics import Metrics
from runtime.process import run_loop, run_role
from runtime.settings import load_settings
from streams.control.service import open_control
from tests.kafka.system import get

SERVES_AT = re.compile(r"http://[0-9.]+:[0-9]+")


class ControlProcess:
    """One worker; its log stands in a file."""

    def __init__(self, bootstrap_servers: str, prefix: str, log: Path) -> None:
        self._log = log
        with log.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, bootstrap_servers, prefix], stderr=sink
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def get(self, path: str) -> str:
        """Return the body of its endpoint, empty while it has none or does not answer."""
        address = SERVES_AT.search(self.log)
        return "" if address is None else await get(address[0] + path)

    async def metric(self, name: str) -> float | None:
        """Return a metric as written with its labels; None while it is not there."""
        for line in (await self.get("/metrics")).splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        return None

    async def ready(self) -> bool:
        return await self.get("/readyz") == "ok\n"

    def terminate(self, within_s: float) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """Kill it for good, also while it is paused."""
        self.process.kill()
        self.process.wait()


def main(bootstrap_servers: str, prefix: str) -> None:
    """Run one worker until it is told to stop."""
    settings = load_settings(None, {"kafka.bootstrap_servers": bootstrap_servers, "prefix": prefix})
    start_logging(settings.log)
    metrics = Metrics("control", "test")

    async def serve() -> None:
        connection = {"bootstrap_servers": bootstrap_servers}
        await run_role(await open_control(settings, connection, metrics), settings, metrics)

    run_loop(serve)


if __name__ == "__main__":
    main(*sys.argv[1:])
