"""Counting what is unfinished beside a test, all the time, as control and `overspill status` do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from schemas.errors import BrokerUnreachable
from streams.control.probe import Probe
from streams.status import SystemStatus
from tests.kafka.system import System


class Seen(NamedTuple):
    """One sample: what was counted, and how many requests had been sent by then."""

    least: int
    waiting: int
    sent: int


@asynccontextmanager
async def sampled(system: System) -> AsyncIterator[list[Seen]]:
    """Count all the time, beside the test, as control and `overspill status` do."""
    seen = [Seen(0, 0, 0)]
    stopped = asyncio.Event()  # cancelling it may be lost in a wait_for of Python 3.11

    async def count() -> None:
        probe = Probe(system.connection, system.names, system.settings.pools)
        try:
            while not stopped.is_set():
                with contextlib.suppress(BrokerUnreachable):  # a broker without time says nothing
                    sample, _ = await probe.read()
                    lags = [lag for pool in sample.pools.values() for lag in pool]
                    least = min(lag.routed - lag.finished for lag in lags)
                    seen.append(Seen(least, sum(lag.unfinished for lag in lags), system.sent))
                    status = await system.status()
                    seen.append(Seen(0, unfinished(status) + undecided(status), system.sent))
        finally:
            await probe.close()

    counting = asyncio.ensure_future(count())
    try:
        yield seen
    finally:
        stopped.set()
        await counting


def unfinished(status: SystemStatus) -> int:
    return sum(pool.unfinished for pool in status.pools.values())


def work_gflops(status: SystemStatus) -> float:
    return sum(pool.lag.work_gflops for pool in status.pools.values())


def undecided(status: SystemStatus) -> int:
    return status.undecided + status.in_retry
