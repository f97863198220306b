"""Rows of the matrix that a test of its own keeps: no load would show more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = {
    "sizes at limit-1, limit, limit+1": (
        "tests/kafka/test_executor.py::test_the_largest_result_passes_the_broker_and_a_larger_one_is_an_error",
        "tests/kafka/test_router.py::test_a_record_that_no_topic_could_keep_does_not_hold_up_its_partition",
    ),
    "every poison record": (
        "tests/kafka/test_router.py::test_requests_pass_and_bad_records_die_whatever_codec_they_came_in",
        "tests/kafka/test_executor.py::test_poison_becomes_a_dead_letter_and_its_partition_moves_on",
        "tests/kafka/test_fetch.py",
    ),
    "offsets out of range after retention": ("tests/kafka/test_lost_logs.py",),
    "formats N against N-1": ("tests/property/test_formats.py",),
    "a doubtful commit": ("tests/kafka/test_transactions.py",),
}
"""Name of the row: pytest's names of its tests."""


def passed(tests: tuple[str, ...], bootstrap: str, out: Path) -> bool:
    """Run tests against a broker that runs; their output goes to `tests.log`."""
    with (out / "tests.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *tests],
            cwd=ROOT,
            env={**os.environ, "OVERSPILL_TEST_BOOTSTRAP": bootstrap},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0
