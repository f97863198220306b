"""A short run of what is cheap: every crash point, SIGTERM at work, every kind of traffic.

The load has every kind of record there is (`traffic`): poison, the largest, repeats and conflicts,
faults of the policy, and all that a backend may do.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runtime.crash import CrashPoint
from tests.chaos.faults import Fault, crash
from tests.chaos.oracle import Outcome
from tests.chaos.run import run
from tests.chaos.stack import Stack
from tests.chaos.traffic import Kind, kind_of
from tests.conftest import RunningKafka

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(900)]

PER_S = 40
SEED = 1
STOPPED = ("router-1", "gpu-1")
"""Others can do their work."""
INSIDE = (
    CrashPoint.TRANSACTION_ACK_BEFORE_OFFSETS.value,
    CrashPoint.TRANSACTION_OFFSETS_BEFORE_COMMIT.value,
)


async def all_that_is_cheap(stack: Stack) -> None:
    await crash.every_point(stack, crash.EACH_ONCE, 1)
    await asyncio.gather(*(stack.terminate(role) for role in STOPPED))


async def test_nothing_is_lost_or_doubled_wherever_a_process_dies_or_is_stopped(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    points = [point for points in crash.EACH_ONCE.values() for point in points]
    assert set(points) == set(CrashPoint)
    fault = Fault(
        "short run", all_that_is_cheap, 0, starts=tuple(set(crash.EACH_ONCE) - {"control"})
    )
    report = await run(fault, SEED, bootstrap=kafka.bootstrap_servers, folder=tmp_path, per_s=PER_S)
    assert report.outcome is Outcome.PASS, (report.judgement, report.ended)
    assert {kind_of(SEED, number) for number in range(report.judgement.requests)} == set(Kind)
    died = {(kill.role, kill.how) for kill in report.kills}
    assert died >= {
        (role, point.value) for role, points in crash.EACH_ONCE.items() for point in points
    }
    # The deaths were where they should be: the broker still had these transactions open.
    inside = [kill for kill in report.kills if kill.how in INSIDE]
    assert len(inside) == len(INSIDE)
    assert all(kill.held.transactions for kill in inside), inside
