"""What nobody works on is counted exactly, whatever dies meanwhile, and ends once each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from deploy.client.judge import judge
from schemas.outcomes import Status
from schemas.topics import router_group
from tests.conftest import RunningKafka
from tests.kafka.counting import sampled, undecided, unfinished, work_gflops
from tests.kafka.system import System, ended_afterwards
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

BACKLOG = 1500
GFLOPS = 2.5
EVERY_S = 0.002
"""Between two requests: slow enough that routers die in the middle, and are back before the end."""


def static_members(system: System) -> set[str | None]:
    group = router_group(system.settings.prefix)
    admin = AdminClient({"bootstrap.servers": system.settings.kafka.bootstrap_servers})
    description = admin.describe_consumer_groups([group])[group].result(10)
    return {member.group_instance_id for member in description.members}


async def test_1500_requests_for_dead_executors_are_counted_exactly_and_end_once_each(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    system = System(kafka.bootstrap_servers, tmp_path)
    await system.create(partitions=4)
    with ended_afterwards(system):
        control = system.start("control", "control")
        routers = [system.start(name, "router") for name in ("router-1", "router-2")]
        nodes = [system.start_node(name, slots=32, run_ms=2) for name in ("gpu-1", "cpu-1")]
        await system.until_ready(control, *routers, *nodes)
        # They take their partitions up again under these names, without waiting for a session.
        assert static_members(system) == {router.name for router in routers}
        await system.send([f"before-{number}" for number in range(20)])
        await system.until_status(lambda s: s.pools["gpu"].finished_total == 20)
        for node in nodes:
            node.kill()

        async with sampled(system) as seen:
            names = [f"waits-{number}" for number in range(BACKLOG)]
            sending = asyncio.ensure_future(
                system.send(names, every_s=EVERY_S, estimated_gflops=GFLOPS)
            )
            for number, router in enumerate(routers, 1):
                await until(lambda: seen[-1].waiting > number * BACKLOG / 4, 60)  # noqa: B023  awaited
                router.kill()
                router.start()
            await sending
            stuck = await system.until_status(lambda s: undecided(s) == 0)
            assert (unfinished(stuck), work_gflops(stuck)) == (BACKLOG, BACKLOG * GFLOPS)
            assert all(pool.lag.oldest_age_s for pool in stuck.pools.values() if pool.unfinished)
            await system.until_ready(*routers)
            assert unfinished(await system.status()) == BACKLOG

            for node in nodes:
                node.start()
            idle = await system.until_status(lambda s: unfinished(s) == 0)
            assert undecided(idle) == 0
            assert (work_gflops(idle), idle.pools["gpu"].lag.oldest_age_s) == (0, 0)
        assert min(sample.least for sample in seen) == 0
        assert all(0 <= sample.waiting <= sample.sent for sample in seen)
        assert max(sample.waiting for sample in seen) == BACKLOG

    verdict = await judge(system.connection, system.names)
    assert verdict.exactly_once
    assert (verdict.asked, len(verdict.ends)) == (20 + BACKLOG, 20 + BACKLOG)
    assert {end.result.status for end in verdict.ends if end.result} == {Status.OK}
