"""What every role's /metrics says while a test goes on, looked at all the time.

Whatever happens to nodes, brokers or control, a number that is exported is a number, is not below
zero, and is not one of another time.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from schemas.metrics import control as declared
from schemas.metrics import router
from schemas.metrics.declaration import Metric
from schemas.outcomes import Mode
from streams.control.gauges import SPOKEN
from streams.router.outlook import STALE_AFTER_S
from tests.kafka.system import get

EVERY_S = 0.5

Samples = Mapping[tuple[str, ...], float]
"""By name, then label values in the alphabetical order of their labels."""


class Scrape(NamedTuple):
    """One answer of one role."""

    at_s: float
    role: str
    samples: Samples

    def value(self, metric: Metric, *labels: str) -> float | None:
        """Return a value, None where it is not exported."""
        return self.samples.get((metric.name, *labels))


@asynccontextmanager
async def scraped(targets: Callable[[], Mapping[str, str]]) -> AsyncIterator[list[Scrape]]:
    """Ask every role by its URL, beside the test; fail if one ever says what it must not."""
    scrapes: list[Scrape] = []
    stopped = asyncio.Event()

    async def scrape() -> None:
        while not stopped.is_set():
            asked = targets()
            bodies = await asyncio.gather(*(get(f"{url}/metrics") for url in asked.values()))
            for role, body in zip(asked, bodies, strict=True):
                if body:
                    scrapes.append(checked(role, body))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stopped.wait(), EVERY_S)

    scraping = asyncio.ensure_future(scrape())
    try:
        yield scrapes
    finally:
        stopped.set()
        await scraping


def checked(role: str, body: str) -> Scrape:
    """Return what a role exports; fail if it exports what it must not."""
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }
    scrape = Scrape(time.time(), role, samples)
    _check(scrape)
    return scrape


def _check(scrape: Scrape) -> None:
    for name, value in scrape.samples.items():
        assert math.isfinite(value), (scrape.role, name, value)
        assert value >= 0, (scrape.role, name, value)
    speaks = scrape.value(declared.ACTIVE)
    spoken = {metric.name for metric in SPOKEN} & {name for name, *_ in scrape.samples}
    if speaks is not None:
        assert bool(spoken) == bool(speaks), (scrape.role, speaks, spoken)
    age_s = scrape.value(router.SNAPSHOT_AGE_SECONDS)
    if age_s is not None and scrape.value(router.MODE, Mode.NORMAL.value) == 1:
        assert age_s < STALE_AFTER_S, (scrape.role, age_s)
