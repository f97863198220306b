"""The router process: joins the group, follows the control plane, and runs a lane a partition."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.kafka.connection import Connection
from runtime.kafka.lanes import LaneHost
from runtime.kafka.meter import HostMeter
from runtime.kafka.topics import partition_counts, refuse_oversize
from runtime.kafka.widths import Widths
from runtime.metrics import Metrics
from runtime.settings import Settings
from runtime.tracing import open_tracing
from schemas.errors import UsageError
from schemas.outcomes import Mode
from schemas.topics import router_group
from streams.policy import Policy, View, policy
from streams.router.feed import Feed
from streams.router.lane import RouterLane
from streams.router.meter import RouterMetrics
from streams.router.outlook import Outlook
from streams.router.plan import Plan
from streams.router.shadow import Shadowed
from streams.router.story import story_of

log = logging.getLogger(__name__)

FIRST_SNAPSHOT_WITHIN_S = 10.0
"""A starting router waits this long for the control plane, then routes blind."""
GAUGES_EVERY_S = 1.0


class Router:
    """Routes whatever partitions the group assigns to it, until stopped."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        metrics: Metrics,
        widths: Widths,
    ) -> None:
        """Prepare; raise UsageError if the tracing that is configured cannot be had."""
        self._tracing = open_tracing(settings.tracing, metrics.role, metrics.version)
        self._counts = RouterMetrics(metrics)
        self._host_meter = HostMeter(metrics)
        self._settings = settings
        self._widths = widths
        widths.on_growth = self._widen
        names = settings.topics
        identity = f"{socket.gethostname()}-{os.getpid()}"
        self._outlook = Outlook(View(settings.pools, identity, pool_widths(settings, widths)))
        self._feed = Feed(connection, names, self._outlook)
        sequence = itertools.count(1)
        chosen = policy(settings.policy.name)
        self._shadowed = _shadowed(settings, chosen)

        def lane(number: int) -> RouterLane:
            return RouterLane(
                number,
                router=identity,
                connection=connection,
                names=names,
                pools=settings.pools,
                policy=self._shadowed or chosen,
                outlook=self._outlook,
                widths=widths,
                sequence=sequence,
                on_committed=self._told if self._tracing else self._counts.committed,
            )

        self._host = LaneHost(
            connection,
            group=router_group(settings.prefix),
            leader=names.requests,
            followers=(names.retry,),
            lane=lane,
            instance_id=settings.kafka.instance_id,
        )
        self._waiting = True
        self._stopping = asyncio.Event()

    @property
    def unready(self) -> str | None:
        """Return why nothing is routed now, or why signals are not fresh; None if all is well."""
        if self._waiting:
            known = self._feed.first_registry.is_set()
            return f"waiting for {'the first snapshot' if known else 'the model registry'}"
        return self._host.unready or self._outlook.unready(time.monotonic())

    async def run(self) -> None:
        """Route until stopped."""
        background = [
            asyncio.ensure_future(self._feed.run()),
            asyncio.ensure_future(self._gauges()),
            asyncio.ensure_future(self._widths.follow()),
        ]
        try:
            await self._first_signals(background)
            if self._outlook.mode(time.monotonic()) is Mode.BLIND and not self._stopping.is_set():
                log.warning("no control plane answers: routing blind until one does")
            self._waiting = False
            await self._work(background)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self._show_shadow()
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.close)

    async def stop(self, within_s: float) -> None:
        """Commit what is queued, leave the group, and let `run` return."""
        self._stopping.set()
        await self._host.stop(within_s)

    async def _first_signals(self, background: Sequence[asyncio.Future[None]]) -> None:
        """Wait for the registry, without which models would go where they must not, and a snapshot.

        The one needs nothing but a broker, the other a control plane: it is waited for up to 10 s.
        """
        registry, snapshot, stopping = (
            asyncio.ensure_future(event.wait())
            for event in (self._feed.first_registry, self._feed.first_snapshot, self._stopping)
        )
        ends: set[asyncio.Future[Any]] = {stopping, *background}
        first = asyncio.FIRST_COMPLETED
        try:
            await asyncio.wait({registry, *ends}, return_when=first)
            if registry.done():
                await asyncio.wait(
                    {snapshot, *ends}, timeout=FIRST_SNAPSHOT_WITHIN_S, return_when=first
                )
        finally:
            for task in (registry, snapshot, stopping):
                task.cancel()

    async def _work(self, background: Sequence[asyncio.Future[None]]) -> None:
        """Route until stopped; raise what ends the background, which never ends by itself."""
        working = asyncio.ensure_future(self._host.run())
        try:
            await asyncio.wait({working, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in background:
                if task.done():
                    task.result()
        finally:
            if not working.done():
                await self._host.stop(0.0)
            await working

    def _told(self, plan: Plan, seconds: float) -> None:
        """Count what was committed, and tell the callers' traces what ended here."""
        self._counts.committed(plan, seconds)
        committed_ms = time.time() * 1000
        for ended in plan.ended:
            story = story_of(ended, committed_ms - seconds * 1000, committed_ms)
            if self._tracing is not None and story is not None:
                self._tracing.tell(story)

    def _widen(self) -> None:
        """Route to added partitions too, as far as offset metadata can carry their counts."""
        widths = pool_widths(self._settings, self._widths)
        try:
            refuse_oversize(self._settings.pools, max(widths.values()))
        except UsageError as error:
            log.error("added partitions get no work: %s", error)  # noqa: TRY400  the line says all
        else:
            self._outlook.widen(widths)

    def _show_shadow(self) -> None:
        if self._shadowed is not None:
            self._counts.shadow(self._shadowed.take_tally())

    async def _gauges(self) -> None:
        while True:
            now_s, outlook = time.monotonic(), self._outlook
            self._counts.outlook(outlook.mode(now_s), outlook.age_s(now_s), outlook.models_revision)
            self._host_meter.show(self._host)
            self._show_shadow()
            await asyncio.sleep(GAUGES_EVERY_S)


async def open_router(settings: Settings, connection: Connection, metrics: Metrics) -> Router:
    """Return a router.

    Raises:
        TopicMismatch: a topic is missing.
        UsageError: the pools have more partitions than a committed offset can carry counts of, or
            the tracing that is configured cannot be had.
        BrokerUnreachable: no broker answers.
    """
    names = settings.topics
    pools = [topic for pool in settings.pools for topic in names.of_pool(pool)]
    others = [names.results, names.dead_letter, names.control, names.models]
    widths = Widths(connection, await partition_counts(connection, [*others, *pools]))
    refuse_oversize(settings.pools, max(pool_widths(settings, widths).values()))
    return Router(settings, connection, metrics, widths)


def _shadowed(settings: Settings, chosen: Policy) -> Shadowed | None:
    """Return the policy with its shadow; None where there is none: then nothing is in its way."""
    if settings.policy.shadow is None:
        return None
    prices = {pool.name: pool.cost_coefficient for pool in settings.pools}
    return Shadowed(chosen, policy(settings.policy.shadow), prices)


def pool_widths(settings: Settings, widths: Mapping[str, int]) -> dict[str, int]:
    """Return how many partitions each pool has that are there in all its topics."""
    names = settings.topics
    return {
        pool.name: min(widths[topic] for topic in names.of_pool(pool)) for pool in settings.pools
    }
