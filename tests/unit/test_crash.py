"""Crash points: nothing when unset, a death at the place and time that was named otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import timeit
from pathlib import Path

import pytest

from runtime import crash
from runtime.crash import CRASH_AT, DIES_AFTER_S, EXIT_CODE, CrashPoint
from schemas.errors import UsageError

ROOT = Path(__file__).parents[2]
POINT_BY_POINT = """
import asyncio
from runtime.crash import CrashPoint, reached
async def main():
    for _ in range(3):
        print("begins", flush=True)
        for point in CrashPoint:
            reached(point)
            await asyncio.sleep(0.05)
asyncio.run(main())
"""


def run(armed: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, CRASH_AT: armed}
    return subprocess.run(
        [sys.executable, "-c", POINT_BY_POINT], env=environment, cwd=ROOT, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("point", [CrashPoint.ROUTER_AFTER_POLL, CrashPoint.TRANSACTION_IN_COMMIT])
def test_a_process_dies_where_it_was_told_to_the_time_it_was_told_to(point: CrashPoint) -> None:
    died = run(f"{point.value}:2")
    assert (died.returncode, died.stdout) == (EXIT_CODE, "begins\n" * 2)
    assert f"crashes at {point.value}" in died.stderr


def test_a_point_that_does_not_exist_is_refused_with_those_that_do() -> None:
    for armed in ("router.nowhere", "router.after-poll:often"):
        with pytest.raises(UsageError, match=r"transaction\.in-commit"):
            crash.choose(armed)


def test_without_the_variable_a_point_costs_a_call_and_nothing_happens() -> None:
    passed = crash.choose(None)
    for point in CrashPoint:
        passed(point)
    assert min(timeit.repeat(lambda: passed(CrashPoint.ROUTER_AFTER_POLL), number=1000)) < 1e-3


def test_every_point_stands_in_the_code_once() -> None:
    rooms = ("runtime", "streams", "executors")
    code = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    for point in CrashPoint:
        assert code.count(f"reached(CrashPoint.{point.name})") == 1, point
    assert set(DIES_AFTER_S) < set(CrashPoint)
