"""An engine runs no more threads than its share of what its process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from executors.backends import cpus
from executors.backends.cpus import cpus_of_quota, share_of_cpus


@pytest.mark.parametrize(
    ("cpu_max", "allowed"),
    [("max 100000", None), ("200000 100000", 2), ("350000 100000", 3), ("50000 100000\n", 1)],
)
def test_a_quota_allows_whole_processors_and_at_least_one(
    cpu_max: str, allowed: int | None
) -> None:
    assert cpus_of_quota(cpu_max) == allowed


def test_executors_divide_the_processors_of_the_process_and_each_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cpus, "_control_groups", tuple)
    assert [share_of_cpus(executors) for executors in (1, 2, 3, 8, 20)] == [8, 4, 2, 1, 1]


def test_the_tightest_quota_around_the_process_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "cpu.max").write_text("400000 100000")
    (inner / "cpu.max").write_text("max 100000")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(cpus, "_control_groups", lambda: (inner, tmp_path, tmp_path / "none"))
    assert share_of_cpus(2) == 2
