"""What the router costs beside a bare copy loop: same records, same broker, taken in turn.

Each side runs in a process of its own, started fresh for each round; what counts is the rate at
which records are committed once a quarter of them is (`lab.instruments.steady`).
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaProducer

from lab.instruments.roomy_snapshot import roomy_snapshot
from lab.instruments.run_settings import settings_of
from lab.instruments.side import run_side
from lab.instruments.traffic import requests
from runtime.connection import connection_of
from runtime.kafka.topics import create_topics
from runtime.process import run_loop
from runtime.settings import Settings
from schemas.control import SNAPSHOT_KEY
from schemas.message import encode
from schemas.topics import EMBEDDED_PARTITIONS, RECORD_BYTES_MAX, Topic, catalogue

SIDES = {"bare": "lab.benches.copy_loop", "router": "lab.benches.router_side"}


@dataclass(frozen=True)
class RouterCost:
    """Records a second of each side, by round, and the router's share of the baseline's rate."""

    records: int
    bare_per_s: tuple[float, ...]
    router_per_s: tuple[float, ...]
    bare_cpu_us: tuple[float, ...]
    router_cpu_us: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Return router rate / bare rate, median of the rounds."""
        pairs = zip(self.router_per_s, self.bare_per_s, strict=True)
        return statistics.median(router / bare for router, bare in pairs)


def bench_router(
    bootstrap_servers: str, *, records: int, rounds: int, progress: Callable[[str], None]
) -> RouterCost:
    """Run both sides in turn on a running broker and return what they did."""
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    cpu: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(rounds):
        settings = settings_of(bootstrap_servers, f"bench-{os.getpid()}-{number}.")
        progress(f"round {number + 1} of {rounds}: {records} records")
        run_loop(lambda: _prepare(settings, records))  # noqa: B023  run at once
        for side in SIDES if number % 2 == 0 else reversed(SIDES):
            cost = run_side(SIDES[side], settings, records)
            rates[side].append(cost.per_s)
            cpu[side].append(cost.cpu_seconds / records * 1e6)
            progress(f"  {side}: {rates[side][-1]:,.0f}/s, {cpu[side][-1]:.1f} us CPU a record")
    return RouterCost(
        records,
        tuple(rates["bare"]),
        tuple(rates["router"]),
        tuple(cpu["bare"]),
        tuple(cpu["router"]),
    )


def document_of(cost: RouterCost) -> dict[str, Any]:
    """Return the cost as a JSON document."""
    return asdict(cost) | {"ratio": cost.ratio}


async def _prepare(settings: Settings, records: int) -> None:
    """Make the topics of a round and fill `requests`."""
    names = settings.topics
    extra = [
        Topic(settings.prefix + name, EMBEDDED_PARTITIONS, "delete", RECORD_BYTES_MAX, 3_600_000)
        for name in ("copy", "copy-notes")
    ]
    await create_topics(connection_of(settings), (*catalogue(names, settings.pools), *extra))
    producer = AIOKafkaProducer(**connection_of(settings), linger_ms=5, max_batch_size=256 * 1024)
    await producer.start()
    try:
        sent = [
            await producer.send(names.requests, document, key=b"%d" % number,
                                partition=number % EMBEDDED_PARTITIONS)
            for number, document in enumerate(requests(records))
        ]  # fmt: skip
        await asyncio.gather(*sent)
        snapshot = roomy_snapshot(settings)
        await producer.send_and_wait(names.control, encode(snapshot), key=SNAPSHOT_KEY, partition=0)
    finally:
        await producer.stop()
