"""The endpoint of a long-running process: /metrics, /livez and /readyz, on loopback by default.

/livez says whether this process's own loop turns, never whether the broker answers: a supervisor
that restarts everything because Kafka is away makes an outage worse. /readyz says whether the
process can do its work now, and in its body why not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from aiohttp import web

from runtime.metrics import Metrics
from runtime.settings import WebSettings
from schemas.errors import UsageError
from schemas.metrics import process as declared

TICK_S = 1.0
"""How often a healthy loop says so."""
CLOSE_WITHIN_S = 0.5
"""For answers under way: who streams would go on for ever."""
DEAD_AFTER_S = 15.0
"""A loop silent for this long is stuck: far beyond any pause of a busy two-core machine."""


class Heartbeat:
    """When the process's own loop last turned; `beat` is called at least once a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def beat(self) -> None:
        """Say that the loop turns."""
        self._last = self._clock()

    @property
    def alive(self) -> bool:
        """Return whether the loop turned lately."""
        return self._clock() - self._last < DEAD_AFTER_S


class WebServer:
    """Serves metrics and health of one role until closed.

    Args:
        unready: returns why the process cannot work now, None when it can.
        routes: of the role's own pages.
    """

    def __init__(
        self,
        settings: WebSettings,
        metrics: Metrics,
        heartbeat: Heartbeat,
        unready: Callable[[], str | None],
        routes: Iterable[web.RouteDef] = (),
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._heartbeat = heartbeat
        self._unready = unready
        self._routes = routes
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def open(self) -> None:
        """Bind and serve; raise UsageError if the port is taken."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._exposition),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                *self._routes,
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_WITHIN_S)
        await self._runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise UsageError(
                f"cannot listen on {host}:{port} ({error.strerror}); choose another --web-port, "
                "0 for a free one"
            ) from None
        bound = self._runner.addresses[0]
        self.url = f"http://{bound[0]}:{bound[1]}"

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _exposition(self, _: web.Request) -> web.Response:
        self._metrics.gauge(declared.READY, self._metrics.role).set(self._unready() is None)
        return web.Response(
            body=self._metrics.exposition(), headers={"Content-Type": self._metrics.content_type}
        )

    async def _livez(self, _: web.Request) -> web.Response:
        alive = self._heartbeat.alive
        return web.Response(status=200 if alive else 503, text="ok\n" if alive else "stuck\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        why = self._unready()
        return web.Response(status=200 if why is None else 503, text=f"{why or 'ok'}\n")
