"""Partitions are added to topics in use: what runs follows, and the counts stay exact."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka.structs import TopicPartition

from deploy.client.judge import judge
from deploy.client.reader import Reader
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import check_topics, grow_topics
from schemas.topics import catalogue, router_group
from streams.control import probe
from tests.conftest import RunningKafka
from tests.kafka.counting import sampled, undecided, unfinished
from tests.kafka.system import System, ended_afterwards
from tests.waiting import in_time, until

log = logging.getLogger(__name__)
"""What was measured: `pytest --log-cli-level=INFO` shows it."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

BEFORE, AFTER = 2, 4
BURST, BURST_EVERY_S = 10, 0.1
PATIENCE_S = 60
FOLLOWED_WITHIN_S = 6.0
"""From growth to work in every added partition: the group looks every 2 s, then rebalances."""


async def test_added_partitions_of_every_topic_are_used_without_a_restart(
    kafka: RunningKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who counts beside the test never asks again how many partitions there are: it must not matter.
    monkeypatch.setattr(probe, "PARTITIONS_MAX_AGE_S", 3600.0)
    system = System(kafka.bootstrap_servers, tmp_path)
    await system.create(BEFORE)
    with ended_afterwards(system):
        roles = [system.start("control", "control"), system.start("router", "router")]
        roles += [system.start_node(name, slots=8, run_ms=5) for name in ("gpu-1", "cpu-1")]
        await system.until_ready(*roles)
        ends = (system.names.results, system.names.dead_letter)
        async with Reader(system.connection, ends, from_end=True) as follower:
            async with sampled(system) as seen, traffic(system):
                await until(lambda: seen[-1].sent > 2 * BURST, PATIENCE_S)
                declared = catalogue(system.names, system.settings.pools, AFTER)
                grown = await grow_topics(system.connection, declared)
                grown_s = time.monotonic()
                assert grown[0] == system.names.retry
                await until(lambda: all_used(system), PATIENCE_S)
                followed_s = time.monotonic() - grown_s
                log.info("every added partition was used after %.2f s", followed_s)
                assert followed_s < in_time(FOLLOWED_WITHIN_S)
            idle = await system.until_status(lambda s: unfinished(s) == undecided(s) == 0)
            read = 0
            while read < system.sent:
                read += len(await follower.some())
        await check_topics(system.connection, declared)
        assert min(sample.least for sample in seen) == 0
        assert all(sample.waiting <= sample.sent for sample in seen)
        buried = idle.dead_letters_total
        assert sum(pool.finished_total for pool in idle.pools.values()) == system.sent - buried
    verdict = await judge(system.connection, system.names)
    assert verdict.exactly_once
    assert len(verdict.ends) == system.sent


@asynccontextmanager
async def traffic(system: System) -> AsyncIterator[None]:
    """Send requests as long as this lasts, one of a burst without a model: a dead letter."""
    stopped = asyncio.Event()

    async def send() -> None:
        for burst in itertools.count():
            if stopped.is_set():
                return
            names = [f"r{burst}-{number}" for number in range(BURST)]
            await system.send(names[1:])
            await system.send(names[:1], model_name=None)
            await asyncio.sleep(BURST_EVERY_S)

    sending = asyncio.ensure_future(send())
    try:
        yield
    finally:
        stopped.set()
        await sending


async def all_used(system: System) -> bool:
    """Return whether every added partition has had work, and its input and retry an owner."""
    names = system.names
    written = (names.pool("gpu"), names.results, names.dead_letter, names.decisions)
    places = [TopicPartition(t, p) for t in written for p in range(BEFORE, AFTER)]
    inputs = [TopicPartition(t, p) for t in (names.requests, names.retry) for p in range(AFTER)]
    async with OffsetReader(system.connection) as offsets:
        ends = await offsets.end(places)
        committed = await offsets.committed(router_group(names.prefix), inputs)
    return all(ends.values()) and None not in committed.values()
