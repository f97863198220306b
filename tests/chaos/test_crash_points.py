"""Every crash point of every role once, under load, and the oracle's verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.crash import CrashPoint
from tests.chaos.faults import FAULTS
from tests.chaos.faults.crash import POINTS
from tests.chaos.oracle import Outcome
from tests.chaos.run import run
from tests.conftest import RunningKafka

pytestmark = [pytest.mark.kafka, pytest.mark.chaos, pytest.mark.timeout(900)]

PER_S = 40
SEED = 1
INSIDE = (
    CrashPoint.TRANSACTION_ACK_BEFORE_OFFSETS.value,
    CrashPoint.TRANSACTION_OFFSETS_BEFORE_COMMIT.value,
)


async def test_nothing_is_lost_or_doubled_wherever_a_process_dies(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    assert {point for points in POINTS.values() for point in points} == set(CrashPoint)
    report = await run(
        FAULTS[0], SEED, bootstrap=kafka.bootstrap_servers, folder=tmp_path, per_s=PER_S
    )
    assert report.judgement.outcome is Outcome.PASS, report.judgement
    died = {(kill.role, kill.how) for kill in report.kills}
    assert died >= {(role, point.value) for role, points in POINTS.items() for point in points}
    # The deaths were where they should be: the broker still had these transactions open.
    inside = [kill for kill in report.kills if kill.how in INSIDE]
    assert len(inside) == 4
    assert all(kill.held.transactions for kill in inside), inside
