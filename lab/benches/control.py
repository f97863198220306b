"""What a control worker costs when 500 nodes report twice a second, and whether it keeps its time.

One real worker on a real broker; reports and commits are made up here. Its CPU is what the kernel
says of its process; its time is read from the snapshots: the threshold starts so high, and the gpu
queue is so long, that each step shows as one record less.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition

from lab.instruments.percentiles import p99
from lab.instruments.processes import cpu_s, roles
from lab.instruments.run_settings import own_settings
from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.scan import scan
from runtime.kafka.topics import create_topics
from runtime.kafka.transactions import FencedProducer, transactional_id
from runtime.settings import Settings
from schemas.control import SNAPSHOT_KEY, NodeCondition, NodeReport, Snapshot
from schemas.errors import OverspillError
from schemas.message import decode, encode
from schemas.metadata import RouterCounts, encode_router
from schemas.pools import GPU
from schemas.topics import PRODUCTION_PARTITIONS, catalogue, router_group
from streams.control.term import TICK_S
from streams.policy.threshold import CEILING

NODES = 500
REPORT_S = 0.5
COMMIT_S = 0.1
"""How often counts change: there is news at every probe, as under load."""
QUEUED = 100
"""Records that wait on the gpu: with none on the cpu, each step of the article's rule is down."""
SETTLE_S = 5.0
"""From the first whole snapshot on: imports and the first rebalance are not what is measured."""
READY_WITHIN_S = 60.0
LOOK_S = 0.2


@dataclass(frozen=True)
class ControlCost:
    """What was found.

    Attributes:
        cores: CPU seconds a second, user and system, of the whole process.
        tick_jitter_ms_p99: how far the time between two steps of the threshold was from a second.
        snapshot_gap_ms_p50, snapshot_gap_ms_p99: from one snapshot's making to the next one's.
        snapshot_bytes: of the last one.
    """

    nodes: int
    reports_per_s: float
    seconds: float
    cores: float
    ticks: int
    tick_jitter_ms_p99: float
    snapshots: int
    snapshot_gap_ms_p50: float
    snapshot_gap_ms_p99: float
    snapshot_bytes: int


def document_of(cost: ControlCost) -> dict[str, Any]:
    """Return the cost as a JSON document."""
    return asdict(cost)


async def bench_control(
    bootstrap_servers: str, *, seconds: float, progress: Callable[[str], None]
) -> ControlCost:
    """Run one worker on a running broker and return what was found."""
    settings = own_settings(bootstrap_servers)
    connection = connection_of(settings)
    names = settings.topics
    progress("making topics")
    await create_topics(connection, catalogue(names, settings.pools, PRODUCTION_PARTITIONS))
    command = [
        "control",
        "--bootstrap-servers",
        bootstrap_servers,
        f"--set=prefix={settings.prefix}",
    ]
    async with _busy_fleet(settings, connection) as sent:
        with roles([command]) as (worker,):
            progress("starting a control worker")
            await worker.until_ready()
            await _until_whole(settings, connection)
            await asyncio.sleep(SETTLE_S)
            progress(f"measuring for {seconds:.0f} s")
            began_s, began_ms = time.monotonic(), int(time.time() * 1000)
            used_s, reports = cpu_s(worker.pid), len(sent)
            await asyncio.sleep(seconds)
            used_s = cpu_s(worker.pid) - used_s
            took_s, reports = time.monotonic() - began_s, len(sent) - reports
            bodies = await _spoken(settings, connection)
    snapshots = [decode(Snapshot, body) for body in bodies]
    snapshots = [one for one in snapshots if one.published_at_ms >= began_ms]
    gaps_ms = [b.published_at_ms - a.published_at_ms for a, b in itertools.pairwise(snapshots)]
    ticks_ms = [
        b.published_at_ms for a, b in itertools.pairwise(snapshots) if a.threshold != b.threshold
    ]
    jitter_ms = [abs(b - a - TICK_S * 1000) for a, b in itertools.pairwise(ticks_ms)]
    return ControlCost(
        nodes=NODES,
        reports_per_s=reports / took_s,
        seconds=took_s,
        cores=used_s / took_s,
        ticks=len(ticks_ms),
        tick_jitter_ms_p99=p99(jitter_ms),
        snapshots=len(snapshots),
        snapshot_gap_ms_p50=statistics.median(gaps_ms),
        snapshot_gap_ms_p99=p99(gaps_ms),
        snapshot_bytes=len(bodies[-1]),
    )


@contextlib.asynccontextmanager
async def _busy_fleet(settings: Settings, connection: Connection) -> AsyncIterator[list[int]]:
    """Let nodes report and a router commit as long as this lasts; yield what grows by report."""
    producer = AIOKafkaProducer(**connection, linger_ms=0)
    await producer.start()
    sent: list[int] = []
    before = Snapshot(
        number=1,
        generation=1,
        probed_at_ms=0,
        published_at_ms=0,
        threshold=CEILING,
        pools={},
        nodes=(),
        requests_included=(),
        retry_included=(),
    )
    await producer.send_and_wait(
        settings.topics.control, encode(before), key=SNAPSHOT_KEY, partition=0
    )
    tasks = [
        asyncio.ensure_future(_report(producer, settings, sent)),
        asyncio.ensure_future(_commit(settings, connection)),
    ]
    try:
        yield sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await producer.stop()


async def _report(producer: AIOKafkaProducer, settings: Settings, sent: list[int]) -> None:
    """Send the reports of all nodes, one after the other, each node's every half second."""
    pools = settings.pools
    fleet = [
        NodeReport(
            node=f"ip-10-0-{n // 256}-{n % 256}.eu-west-1.compute.internal-{40_000 + n}",
            pool=pools[n % len(pools)].name,
            compute_type=pools[n % len(pools)].compute_type,
            generation=1,
            state=NodeCondition.READY,
            slots=8,
            busy=0,
            partitions=(n // len(pools),) if n // len(pools) < PRODUCTION_PARTITIONS else (),
            models=("meta-llama/Llama-3.1-8B-Instruct",),
            backend="emulated",
            latency_mean_ms=50.0,
            reported_at_ms=0,
        )
        for n in range(NODES)
    ]
    began_s = time.monotonic()
    for number in itertools.count():
        said = fleet[number % NODES]
        changed = {"busy": number % 9, "latency_mean_ms": 50 + number % 100 / 7}
        value = encode(said.model_copy(update=changed))
        await producer.send(settings.topics.nodes, value, key=said.node.encode(), partition=0)
        sent.append(number)
        due_s = began_s + (number + 1) * REPORT_S / NODES
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))


async def _commit(settings: Settings, connection: Connection) -> None:
    """Commit counts that change as a router's do, and leave so many records waiting."""
    group = router_group(settings.prefix)
    place = TopicPartition(settings.topics.requests, 0)
    identity = transactional_id(group, place.topic, place.partition)
    producer = FencedProducer(connection, identity, group)
    await producer.open()
    try:
        for number in itertools.count(QUEUED):
            counts = RouterCounts({GPU: (number,)}, consumed=number)
            await producer.commit(Outputs(), {place: Committed(number, encode_router(counts))})
            await asyncio.sleep(COMMIT_S)
    finally:
        await producer.close()


async def _until_whole(settings: Settings, connection: Connection) -> None:
    """Return when all nodes live by a snapshot."""
    give_up_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_s:
        bodies = await _spoken(settings, connection)
        if sum(node.live for node in decode(Snapshot, bodies[-1]).nodes) == NODES:
            return
        await asyncio.sleep(LOOK_S)
    raise OverspillError(f"not all of {NODES} nodes live by the last snapshot")


async def _spoken(settings: Settings, connection: Connection) -> list[bytes]:
    place = TopicPartition(settings.topics.control, 0)
    async with OffsetReader(connection) as offsets:
        end = (await offsets.end([place]))[place]
    return [record.value or b"" async for record in scan(connection, place, 0, end)]
