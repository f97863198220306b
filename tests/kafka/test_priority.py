"""Realtime work beside a batch backlog, through a real broker."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from executors.backends.emulated import Emulated
from executors.backends.profile import Profile
from tests.conftest import RunningKafka
from tests.kafka.pool_place import PoolPlace, running
from tests.waiting import in_time, until

pytestmark = pytest.mark.kafka

RUN_MS = 200
BACKLOG = 500
"""Half a minute of it; the test is over before."""
REALTIME = 12


async def test_realtime_work_waits_a_run_and_a_quarter_second_beside_a_batch_backlog(
    kafka: RunningKafka,
) -> None:
    place = PoolPlace(kafka.bootstrap_servers)
    await place.create()
    waits_ms: list[float] = []

    async def all_realtime_ended() -> bool:
        results = [orjson.loads(r.value or b"") for r in await place.read(place.names.results)]
        of_realtime = [r for r in results if int(r["id"][1:]) < REALTIME]
        waits_ms[:] = [r["timings_ms"]["in_pool"] for r in of_realtime]
        return len(waits_ms) == REALTIME

    async with running(place.node(Emulated(Profile(fixed_ms=RUN_MS), "bench"), slots=4)):
        await place.route(range(1000, 1000 + BACKLOG), priority="batch")
        for number in range(REALTIME):
            await place.route(
                range(number, number + 1), topic=place.names.express("gpu"), priority="realtime"
            )
            await asyncio.sleep(RUN_MS / 2000)
        await until(all_realtime_ended)
        assert (await place.finished())[0] < BACKLOG
    assert max(waits_ms) / 1000 <= in_time(RUN_MS / 1000 + 0.25)
