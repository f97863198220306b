"""The guard ends what it guards when it is asked to or its parent is gone, and at nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.local.kafka.guard import _LOOK_S
from deploy.local.kafka.guarded import Guarded
from tests.waiting import until


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with (tmp_path / "lock").open("w") as lock:
        made = Guarded(["sleep", "60"], lock=lock.fileno(), log_file=tmp_path / "log")
        yield made
        made.stop()


async def test_a_pause_of_the_guard_is_not_the_end_of_what_it_guards(guarded: Guarded) -> None:
    """As when a laptop sleeps, or somebody stops all processes for a while."""
    guard = psutil.Process(guarded.pid).parent()
    assert guard is not None
    guard.suspend()
    await until(lambda: guard.status() == psutil.STATUS_STOPPED)
    paused = time.monotonic()
    await until(lambda: time.monotonic() - paused > 2 * _LOOK_S)  # its look is overdue
    looks = guard.num_ctx_switches().voluntary
    guard.resume()
    await until(
        lambda: guarded.exit_code() is not None or guard.num_ctx_switches().voluntary >= looks + 3
    )
    assert guarded.exit_code() is None
    assert psutil.Process(guarded.pid).is_running()


async def test_what_is_guarded_ends_when_the_guard_is_asked_to_stop(guarded: Guarded) -> None:
    guarded.stop()
    assert guarded.exit_code() == 128 + 9
    assert not psutil.pid_exists(guarded.pid)
