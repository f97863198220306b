"""What the router costs beside a bare copy loop: same records, same broker, taken in turn.

Each side runs in a process of its own, started fresh for each round; what counts is the rate at
which records are committed once a quarter of them is (`lab.steady`).
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from prometheus_client.registry import RestrictedRegistry

from lab.copy_loop import copy_all
from lab.place import settings_of
from lab.steady import Steady
from lab.traffic import requests
from runtime.connection import connection_of
from runtime.kafka.topics import create_topics
from runtime.memory import collect_by_the_clock, give_large_buffers_back
from runtime.metrics import Metrics
from runtime.process import run_loop
from runtime.settings import Settings
from schemas.control import SNAPSHOT_KEY, NodeState, PartitionState, PoolState, Snapshot
from schemas.message import encode
from schemas.metrics import router as declared
from schemas.topics import EMBEDDED_PARTITIONS, RECORD_BYTES_MAX, Topic, catalogue
from streams.router.service import open_router

SIDES = ("bare", "router")
NODES_PER_POOL = 8
SLOTS = 8
POLL_S = 0.01
"""Far less than a side's run takes; a hundred looks a second cost the router a hundredth."""


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
            found = _run_side(side, settings, records)
            rates[side].append(found["per_s"])
            cpu[side].append(found["cpu_seconds"] / records * 1e6)
            progress(f"  {side}: {rates[side][-1]:,.0f}/s, {cpu[side][-1]:.1f} us CPU a record")
    return RouterCost(
        records,
        tuple(rates["bare"]),
        tuple(rates["router"]),
        tuple(cpu["bare"]),
        tuple(cpu["router"]),
    )


def as_json(cost: RouterCost) -> dict[str, Any]:
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


def roomy_snapshot(settings: Settings) -> Snapshot:
    """Return a fleet with room, so that rules up to the ninth are in play."""
    now_ms = int(time.time() * 1000)
    partitions = range(EMBEDDED_PARTITIONS)
    nodes = tuple(
        NodeState(
            id=f"{pool.name}-{number}",
            pool=pool.name,
            live=True,
            slots=SLOTS,
            partitions=tuple(p for p in partitions if p % NODES_PER_POOL == number),
            latency_ms=50.0,
        )
        for pool in settings.pools
        for number in range(NODES_PER_POOL)
    )
    state = PoolState(
        routed_total=0,
        finished_total=0,
        partitions=tuple(PartitionState(unfinished=0, finish_rate=100.0) for _ in partitions),
    )
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=now_ms,
        published_at_ms=now_ms,
        threshold=10,
        pools={pool.name: state for pool in settings.pools},
        nodes=nodes,
        requests_included=(-1,) * EMBEDDED_PARTITIONS,
        retry_included=(-1,) * EMBEDDED_PARTITIONS,
    )


def _run_side(side: str, settings: Settings, records: int) -> dict[str, float]:
    command = [sys.executable, "-m", "lab.bench_router", side, settings.kafka.bootstrap_servers,
               settings.prefix, str(records)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)  # noqa: S603  ourselves
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


async def _copy_side(settings: Settings, records: int) -> Steady:
    prefix = settings.prefix
    return await copy_all(
        connection_of(settings),
        source=settings.topics.requests,
        sink=prefix + "copy",
        extra=prefix + "copy-notes",
        group=prefix + "copy",
        records=records,
    )


async def _router_side(settings: Settings, records: int) -> Steady:
    collect_by_the_clock()  # both as every router process does
    give_large_buffers_back()
    metrics = Metrics("router", "bench")
    router = await open_router(settings, connection_of(settings), metrics)
    work = asyncio.ensure_future(router.run())
    # Alone, as collecting all metrics that often would cost the router CPU.
    of_interest = metrics.registry.restricted_registry([declared.CONSUMED.name])
    progress = Steady(records)
    while not progress.complete:
        if work.done():
            await work
        await asyncio.sleep(POLL_S)
        progress.has_done(_consumed(of_interest), time.monotonic())
    await router.stop(5.0)
    await work
    return progress


def _consumed(registry: RestrictedRegistry) -> int:
    """Return how many records of `requests` are committed."""
    return sum(
        int(sample.value)
        for family in registry.collect()
        for sample in family.samples
        if sample.labels.get("source") == "requests"
    )


def main() -> None:
    """Run one side and print how fast it was, as JSON."""
    side, bootstrap_servers, prefix, records = sys.argv[1:]
    settings = settings_of(bootstrap_servers, prefix)
    run = {"bare": _copy_side, "router": _router_side}[side]
    progress = run_loop(lambda: run(settings, int(records)))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = used.ru_utime + used.ru_stime
    print(json.dumps({"per_s": progress.per_s(), "cpu_seconds": cpu_seconds}))  # noqa: T201  the result


if __name__ == "__main__":
    main()
