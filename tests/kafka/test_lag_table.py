"""The lag table against a real broker: exact in records, work and age, with nodes and without."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.structs import TopicPartition
from confluent_kafka.admin import AdminClient

from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer, transactional_id
from schemas.errors import OutcomeUnknown
from schemas.metadata import FinishedCounts, RouterCounts, encode_finished, encode_router
from schemas.topics import executor_group, router_group
from streams.control.lag_table import LagLine
from streams.control.probe import Probe
from streams.status import SystemStatus, read_status
from tests.conftest import RunningKafka
from tests.kafka.control_process import ControlProcess
from tests.kafka.pool_place import PoolPlace, running
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

STUCK = 7
GFLOPS = 1.25
IDLE = LagLine(
    routed=0,
    finished=0,
    unfinished=0,
    oldest_age_s=0.0,
    arrival_rate=None,
    finish_rate=None,
    drain_s=0.0,
    work_gflops=0.0,
    work_s=0.0,
)


@pytest.fixture
async def place(kafka: RunningKafka) -> PoolPlace:
    made = PoolPlace(kafka.bootstrap_servers)
    await made.create()
    return made


async def commit(
    place: PoolPlace, group: str, topic: str, said: Committed, number: int = 0
) -> None:
    while True:
        producer = FencedProducer(place.connection, transactional_id(group, topic, number), group)
        await producer.open()
        # The first transactions of a new broker are slow, hence in doubt: say it again.
        with suppress(OutcomeUnknown):
            await producer.commit(Outputs(), {TopicPartition(topic, number): said})
            await producer.close()
            return


async def count_routed(place: PoolPlace, *records: int) -> None:
    """Commit as a router that has sent so many records to each partition of pool `gpu`."""
    work = tuple(round(GFLOPS * 1000) * number for number in records)
    counts = RouterCounts({"gpu": records}, consumed=sum(records), work={"gpu": work})
    said = Committed(sum(records), encode_router(counts))
    await commit(place, router_group(place.names.prefix), place.names.requests, said)


async def status(place: PoolPlace) -> SystemStatus:
    return await read_status(place.settings, place.connection)


@contextmanager
def control(place: PoolPlace, folder: Path) -> Iterator[ControlProcess]:
    worker = ControlProcess(
        place.connection["bootstrap_servers"], place.names.prefix, folder / "control.log"
    )
    try:
        yield worker
    finally:
        print(worker.log)  # noqa: T201  pytest shows it beside a failure
        worker.kill()


async def test_stuck_work_shows_its_records_work_and_age_and_none_of_it_once_it_is_done(
    place: PoolPlace, tmp_path: Path
) -> None:
    assert {line for pool in (await status(place)).partition_lags.values() for line in pool} == {
        IDLE
    }
    with control(place, tmp_path) as worker:
        arrived_s = time.time() - 100
        await place.route(range(STUCK), gflops=GFLOPS, arrived_s=arrived_s)
        await count_routed(place, 4, 3)

        stuck = await status(place)
        line = stuck.pools["gpu"].lag
        assert (line.routed, line.finished, line.unfinished) == (STUCK, 0, STUCK)
        assert line.work_gflops == STUCK * GFLOPS
        assert line.oldest_age_s == pytest.approx(time.time() - arrived_s, abs=2)
        assert (line.drain_s, line.work_s) == (None, None)  # no node lives
        assert [each.unfinished for each in stuck.partition_lags["gpu"]] == [4, 3]

        async def exported() -> bool:
            age_s = await worker.metric('overspill_oldest_unfinished_seconds{pool="gpu"}')
            return age_s is not None and age_s >= 100

        await until(exported, within_s=40)
        gflops = await worker.metric('overspill_unfinished_work_gflops{pool="gpu"}')
        assert gflops == STUCK * GFLOPS
        assert await worker.metric('overspill_drain_seconds{pool="gpu"}') is None

        async with running(place.node(Emulated(Profile(fixed_ms=1), "bench"))):
            await until(lambda: place.all_ended(STUCK))
            finished = (await status(place)).pools["gpu"].lag
        assert (finished.routed, finished.finished, finished.unfinished) == (STUCK, STUCK, 0)
        assert (finished.work_gflops, finished.oldest_age_s, finished.work_s) == (0, 0, 0)

        async def idle() -> bool:
            return await worker.metric('overspill_unfinished_work_gflops{pool="gpu"}') == 0

        await until(idle)
        assert await worker.metric('overspill_oldest_unfinished_seconds{pool="gpu"}') == 0
        assert await worker.metric("overspill_lag_clamps_total") == 0
        assert await worker.metric("overspill_work_clamps_total") == 0


async def test_a_deleted_executor_group_is_rebuilt_with_the_work_it_had_finished(
    place: PoolPlace,
) -> None:
    group = executor_group(place.settings.prefix, "gpu")
    async with running(place.node(Emulated(Profile(fixed_ms=1), "bench"))):
        await place.route(range(6), gflops=GFLOPS)
        await until(lambda: place.all_ended(6))
    await count_routed(place, 4, 3)  # one more, that nobody has finished
    admin = AdminClient({"bootstrap.servers": place.connection["bootstrap_servers"]})
    await asyncio.to_thread(admin.delete_consumer_groups([group])[group].result)
    assert (await status(place)).pools["gpu"].lag.work_gflops == 7 * GFLOPS
    async with running(place.node(Emulated(Profile(fixed_ms=1), "bench"))):

        async def rebuilt() -> bool:
            return sum(said.finished for said in (await place.counts()).values()) == 6

        await until(rebuilt)
        line = (await status(place)).pools["gpu"].lag
    assert (line.unfinished, line.work_gflops) == (1, GFLOPS)


async def test_counts_stay_exact_while_a_pool_gets_another_partition(place: PoolPlace) -> None:
    pool = place.names.pool("gpu")
    probe = Probe(place.connection, place.names, place.settings.pools)
    try:
        await count_routed(place, 2, 0)
        sample, _ = await probe.read()
        assert [lag.unfinished for lag in sample.pools["gpu"]] == [2, 0]
        admin = AIOKafkaAdminClient(**place.connection)
        await admin.start()
        for topic in (place.names.express("gpu"), pool):
            await admin.create_partitions({topic: NewPartitions(3)})
        await admin.close()
        group = executor_group(place.settings.prefix, "gpu")
        finished = encode_finished(FinishedCounts(4, 8, work=4 * round(GFLOPS * 1000)))
        await commit(place, group, pool, Committed(8, finished), number=2)
        await count_routed(place, 2, 0, 5)
        sample, _ = await probe.read()
        assert [lag.unfinished for lag in sample.pools["gpu"]] == [2, 0, 1]
        assert sample.pools["gpu"][2].unfinished_mflop == round(GFLOPS * 1000)
    finally:
        await probe.close()
