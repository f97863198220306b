"""The control plane on a real broker: exact counts, one speaker at a time, nothing lost with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.topics import create_topics
from runtime.kafka.transactions import FencedProducer, transactional_id
from runtime.settings import Settings, load_settings
from schemas.capability import Capability
from schemas.control import SNAPSHOT_KEY, Freeze, NodeReport, NodeState, Snapshot
from schemas.errors import OutcomeUnknown
from schemas.message import decode, encode
from schemas.metadata import FinishedCounts, RouterCounts, encode_finished, encode_router
from schemas.orders import Order
from schemas.pools import ComputeType
from schemas.topics import catalogue, executor_group, router_group
from streams.control.record import last_snapshot
from streams.status import read_status, status_json
from tests.kafka.control_process import ControlProcess
from tests.kafka.reading import read_all
from tests.waiting import until

if TYPE_CHECKING:
    from tests.conftest import RunningKafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

PARTITIONS = 2
REPORT_EVERY_S = 0.3
STARTED_WITHIN_S = 40
TAKEN_OVER_WITHIN_S = 30
PROVEN = Capability(
    device="NPU", model="m", max_concurrency=1, golden_error=0.0003, validated_at_ms=7
)

_numbers = itertools.count()


class Fleet:
    """Routers and nodes played by hand, and what control makes of them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.connection = {"bootstrap_servers": bootstrap_servers}
        prefix = f"c{os.getpid()}-{next(_numbers)}."
        self.settings: Settings = load_settings(
            None, {"kafka.bootstrap_servers": bootstrap_servers, "prefix": prefix}
        )
        self.names = self.settings.topics
        self.offsets = OffsetReader(self.connection)
        self._producer = AIOKafkaProducer(**self.connection)

    async def open(self) -> None:
        await create_topics(self.connection, catalogue(self.names, self.settings.pools, PARTITIONS))
        await self._producer.start()

    async def close(self) -> None:
        await self._producer.stop()
        await self.offsets.close()

    async def produce(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        await self._producer.send_and_wait(topic, value, key=key, partition=0)

    async def routed(self, partition: int, offset: int, **counts: Any) -> None:
        """Commit `requests` as a router does."""
        place = TopicPartition(self.names.requests, partition)
        metadata = encode_router(RouterCounts(**counts))
        await self._commit(router_group(self.names.prefix), place, Committed(offset, metadata))

    async def finished(self, pool: str, topic: str, partition: int, count: int) -> None:
        """Commit a pool partition as its node does."""
        metadata = encode_finished(FinishedCounts(count, 2 * count))
        await self._commit(
            executor_group(self.names.prefix, pool),
            TopicPartition(topic, partition),
            Committed(2 * count, metadata),
        )

    async def _commit(self, group: str, place: TopicPartition, committed: Committed) -> None:
        identity = transactional_id(group, place.topic, place.partition)
        while True:
            producer = FencedProducer(self.connection, identity, group)
            await producer.open()
            # The first transactions of a new broker are slow, hence in doubt: say it again.
            with contextlib.suppress(OutcomeUnknown):
                await producer.commit(Outputs(), {place: committed})
                await producer.close()
                return

    @contextlib.asynccontextmanager
    async def reporting(self, *reports: NodeReport) -> AsyncIterator[None]:
        """Let nodes live: they report as long as this lasts."""

        async def report() -> None:
            while True:
                for report in reports:
                    await self.produce(self.names.nodes, report.node.encode(), encode(report))
                await asyncio.sleep(REPORT_EVERY_S)

        task = asyncio.create_task(report())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def snapshot(self) -> Snapshot | None:
        return await last_snapshot(self.connection, self.offsets, self.names)

    async def generation(self) -> int:
        """Return that of the last snapshot."""
        snapshot = await self.snapshot()
        assert snapshot is not None
        return snapshot.generation

    async def until_snapshot(
        self, holds: Callable[[Snapshot], bool], within_s: float = 10
    ) -> Snapshot:
        """Return the first snapshot found that holds."""
        found: list[Snapshot] = []

        async def one_does() -> bool:
            snapshot = await self.snapshot()
            if snapshot is None or not holds(snapshot):
                return False
            found.append(snapshot)
            return True

        await until(one_does, within_s)
        return found[0]

    async def spoken(self) -> list[tuple[int, int]]:
        """Return generation and number of every committed snapshot, in order."""
        place = TopicPartition(self.names.control, 0)
        snapshots = [
            decode(Snapshot, record.value or b"")
            for record in await read_all(self.connection, [place])
        ]
        return [(snapshot.generation, snapshot.number) for snapshot in snapshots]


def report(node: str, pool: str, partitions: tuple[int, ...], **fields: Any) -> NodeReport:
    known: dict[str, Any] = {
        "generation": 1,
        "state": "ready",
        "slots": 2,
        "busy": 0,
        "backend": "emulated",
        "latency_mean_ms": 50.0,
        "reported_at_ms": 0,
    }
    return NodeReport(
        node=node,
        pool=pool,
        compute_type=ComputeType(pool),
        partitions=partitions,
        **{**known, **fields},
    )


@pytest.fixture
async def fleet(kafka: RunningKafka) -> AsyncIterator[Fleet]:
    fleet = Fleet(kafka.bootstrap_servers)
    await fleet.open()
    yield fleet
    await fleet.close()


Started = Callable[[], ControlProcess]


@pytest.fixture
def control(fleet: Fleet, tmp_path: Path) -> Iterator[Started]:
    """Start workers; whatever still runs at the end is killed."""
    workers: list[ControlProcess] = []

    def start() -> ControlProcess:
        log = tmp_path / f"control-{len(workers)}.log"
        bootstrap = fleet.connection["bootstrap_servers"]
        workers.append(ControlProcess(bootstrap, fleet.names.prefix, log))
        return workers[-1]

    yield start
    for worker in workers:
        print(worker.log)  # noqa: T201  pytest shows it beside a failure
        worker.kill()


async def test_the_snapshot_and_the_status_say_exactly_what_was_committed_and_reported(
    fleet: Fleet, control: Started
) -> None:
    # Routed: 9 to gpu partition 0 (2 of them express), 3 to gpu 1, 4 to cpu 1. Finished: 2 and 1.
    await fleet.routed(
        0, 31, routed={"gpu": (7, 3), "gpu.express": (2, 0)}, consumed=14, dead=1, duplicate=1
    )
    await fleet.routed(1, 12, routed={"cpu": (0, 4)}, consumed=6, expired=2)
    await fleet.finished("gpu", fleet.names.pool("gpu"), 0, 2)
    await fleet.finished("gpu", fleet.names.express("gpu"), 0, 1)
    await fleet.produce(fleet.names.nodes, b"broken", b"{not a report")
    await fleet.produce(fleet.names.lag, b"lag", None)
    worker = control()
    nodes = (
        report("gpu-1", "gpu", (0,), capabilities=(PROVEN,)),
        report("cpu-1", "cpu", (0, 1), slots=3),
    )
    async with fleet.reporting(*nodes):
        snapshot = await fleet.until_snapshot(
            lambda s: sum(node.live for node in s.nodes) == 2, STARTED_WITHIN_S
        )
        unfinished = {
            name: [p.unfinished for p in pool.partitions] for name, pool in snapshot.pools.items()
        }
        assert unfinished == {"gpu": [6, 3], "cpu": [0, 4], "npu": [0, 0]}
        assert (snapshot.requests_included, snapshot.retry_included) == ((31, 12), (-1, -1))
        assert snapshot.nodes[1] == NodeState(
            id="gpu-1", pool="gpu", live=True, slots=2, partitions=(0,), latency_ms=50.0
        )
        assert await worker.ready()
        assert await worker.metric('overspill_control_unreadable_total{topic="nodes"}') == 1
        assert await worker.metric('overspill_control_unreadable_total{topic="lag"}') == 1
        assert await worker.metric('overspill_queue_depth_records{pool="gpu"}') == 7

        status = status_json(await read_status(fleet.settings, fleet.connection))
        assert status["mode"] == "normal"
        assert status["capabilities"] == {"cpu-1": [], "gpu-1": [PROVEN.model_dump()]}
        assert status["pools"]["gpu"] == {
            "unfinished": 9,
            "queue_depth": 7,
            "slots": 2,
            "free_slots": 0,
            "nodes": 1,
            "avg_latency_ms": 50.0,
            "routed_total": 12,
            "finished_total": 3,
            "paused": False,
            # No record stands in these topics, so there is none to tell an age from.
            "oldest_age_s": None,
            "arrival_rate": 0.0,
            "finish_rate": 0.0,
            "drain_s": None,
            "work_gflops": 0.0,
            "work_s": 0.225,
        }
        assert status["pools"]["cpu"]["free_slots"] == 0
        totals = ("dead_letters_total", "expired_total", "duplicates_total")
        assert [status[total] for total in totals] == [1, 2, 1]

        # Once no cpu work waits, the long gpu queue lowers the threshold, second by second.
        await fleet.finished("cpu", fleet.names.pool("cpu"), 1, 4)
        await fleet.until_snapshot(lambda s: s.threshold < 10)
        await fleet.finished("gpu", fleet.names.pool("gpu"), 0, 7)
        await fleet.finished("gpu", fleet.names.express("gpu"), 0, 2)
        await fleet.finished("gpu", fleet.names.pool("gpu"), 1, 3)
        idle = await fleet.until_snapshot(
            lambda s: not any(p.unfinished for pool in s.pools.values() for p in pool.partitions)
        )
        assert [pool.routed_total - pool.finished_total for pool in idle.pools.values()] == [0] * 3
        # A node that takes its leave is gone at once.
        await fleet.produce(fleet.names.nodes, b"left", encode(report("left", "npu", (0,))))
        await fleet.until_snapshot(lambda s: "left" in [node.id for node in s.nodes])
        await fleet.produce(fleet.names.nodes, b"left", None)
        await fleet.until_snapshot(lambda s: "left" not in [node.id for node in s.nodes])
    await fleet.until_snapshot(lambda s: not any(node.live for node in s.nodes))
    assert worker.terminate(within_s=5) == 0


async def test_undecided_and_in_retry_are_counted_by_records_not_by_offsets(fleet: Fleet) -> None:
    async def waiting() -> tuple[int, int]:
        status = await read_status(fleet.settings, fleet.connection)
        return status.undecided, status.in_retry

    assert await waiting() == (0, 0)
    for _ in range(5):
        await fleet.produce(fleet.names.requests, None, b"{}")
    identity = f"{fleet.names.prefix}hand"
    node = FencedProducer(fleet.connection, identity, identity)
    await node.open()
    for number in range(3):
        refused = Outputs()
        refused.add(fleet.names.retry, 1, None, b"{}")
        await node.commit(
            refused, {TopicPartition(fleet.names.pool("gpu"), 0): Committed(number, "")}
        )
    await node.close()
    assert (await fleet.offsets.end([TopicPartition(fleet.names.retry, 1)])).popitem()[1] == 6
    assert await waiting() == (5, 3)
    await fleet.routed(0, 3, routed={"gpu": (3, 0)}, consumed=3)
    assert await waiting() == (2, 3)
    await fleet.routed(0, 5, routed={"gpu": (5, 0)}, consumed=5)
    assert await waiting() == (0, 3)


async def test_one_worker_speaks_and_another_goes_on_where_it_was_stopped_or_killed(
    fleet: Fleet, control: Started
) -> None:
    freeze = Freeze(who="ana", why="migration", at_ms=1)
    before = Snapshot(
        number=5,
        generation=41,
        probed_at_ms=0,
        published_at_ms=0,
        threshold=17,
        pools={},
        nodes=(),
        requests_included=(),
        retry_included=(),
    )
    await fleet.produce(fleet.names.control, SNAPSHOT_KEY, encode(before))
    order = Order(what="freeze", who=freeze.who, why=freeze.why, at_ms=freeze.at_ms)
    await fleet.produce(fleet.names.orders, b"threshold", encode(order))
    await fleet.produce(fleet.names.orders, b"nobody", b"no order")
    await fleet.routed(0, 8, routed={"gpu": (8, 0)}, consumed=8)

    def complete(after: int) -> Callable[[Snapshot], bool]:
        # Not the next generation but a later one: a slow commit is a doubt, and ends a term too.
        return lambda s: s.generation > after and [n.live for n in s.nodes] == [True]

    async with fleet.reporting(report("gpu-1", "gpu", (0, 1))):
        first = control()
        await fleet.until_snapshot(complete(before.generation), STARTED_WITHIN_S)
        second = control()
        await until(second.ready, STARTED_WITHIN_S)
        # A worker that joins may move the partitions: one of the two speaks, the other stands by.
        await until(lambda: _one_speaks(first, second), TAKEN_OVER_WITHIN_S)
        speaker, other = (
            (first, second)
            if await first.metric("overspill_control_active") == 1
            else (second, first)
        )
        await until(other.ready, TAKEN_OVER_WITHIN_S)  # it may be joining anew

        speaker.process.send_signal(signal.SIGSTOP)
        paused_in = await fleet.generation()
        taken = await fleet.until_snapshot(complete(paused_in), TAKEN_OVER_WITHIN_S)
        assert (taken.threshold, taken.freeze) == (17, freeze)
        assert [p.unfinished for p in taken.pools["gpu"].partitions] == [8, 0]
        speaker.process.send_signal(signal.SIGCONT)
        await until(speaker.ready, TAKEN_OVER_WITHIN_S)
        await until(lambda: _one_speaks(speaker, other), TAKEN_OVER_WITHIN_S)
        spoken = await fleet.spoken()
        assert spoken == sorted(spoken), "a worker that woke up spoke out of turn"

        active = other if await other.metric("overspill_control_active") == 1 else speaker
        rest = speaker if active is other else other
        active.kill()
        killed_in = await fleet.generation()
        after = await fleet.until_snapshot(complete(killed_in), TAKEN_OVER_WITHIN_S)
        assert (after.threshold, after.freeze) == (17, freeze)
        assert rest.terminate(within_s=5) == 0
    spoken = await fleet.spoken()
    assert spoken == sorted(set(spoken))


async def _one_speaks(*workers: ControlProcess) -> bool:
    active = [await worker.metric("overspill_control_active") for worker in workers]
    return sorted(a or 0.0 for a in active) == [0.0] * (len(workers) - 1) + [1.0]


async def test_deleted_tables_are_built_again(fleet: Fleet, control: Started) -> None:
    await fleet.routed(0, 8, routed={"cpu": (3, 5)}, consumed=8)
    pause = Order(what="pause", who="ana", why="test", at_ms=1)
    async with fleet.reporting(report("cpu-1", "cpu", (0, 1))):
        worker = control()
        await fleet.produce(fleet.names.orders, b"pool/cpu", encode(pause))
        live = await fleet.until_snapshot(
            lambda s: [n.live for n in s.nodes] == [True] and s.pools["cpu"].paused,
            STARTED_WITHIN_S,
        )
        assert worker.terminate(within_s=5) == 0
        ended_in = await fleet.generation()
        changelogs = [
            f"{fleet.names.prefix}control-{t}-changelog"
            for t in ("lag", "threshold", "nodes", "orders")
        ]
        admin = AIOKafkaAdminClient(**fleet.connection)
        await admin.start()
        answer = await admin.delete_topics(changelogs)
        await admin.close()
        assert [code for _, code in answer.topic_error_codes] == [0, 0, 0, 0]
        worker = control()
        again = await fleet.until_snapshot(lambda s: s.generation > ended_in, STARTED_WITHIN_S)
        assert [n.id for n in again.nodes if n.live] == ["cpu-1"]
        assert [p.unfinished for p in again.pools["cpu"].partitions] == [3, 5]
        assert again.threshold == live.threshold
        assert again.pools["cpu"].reason == "paused by ana: test"
        assert worker.terminate(within_s=5) == 0
