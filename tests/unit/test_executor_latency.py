"""What a node says of its speed."""

from __future__ import annotations

import pytest

from executors.latency import WINDOW, Latency, LatencyWindow


def test_before_any_completion_the_self_test_is_the_best_guess() -> None:
    assert LatencyWindow(12.5).read() == Latency(12.5, None, None, None)


def test_the_mean_is_over_the_last_hundred_completions_however_long_ago() -> None:
    window = LatencyWindow(1.0)
    for _ in range(WINDOW):
        window.add(1_000.0)
    for _ in range(WINDOW):
        window.add(10.0)
    assert window.read().mean_ms == 10.0
    assert window.completed == 2 * WINDOW


def test_percentiles_are_nearest_rank() -> None:
    window = LatencyWindow(0.0)
    for run_ms in range(100, 0, -1):
        window.add(float(run_ms))
    assert window.read() == Latency(50.5, 50.0, 95.0, 99.0)


@pytest.mark.parametrize("runs", [[7.0], [7.0, 7.0]])
def test_few_completions_have_percentiles_too(runs: list[float]) -> None:
    window = LatencyWindow(0.0)
    for run_ms in runs:
        window.add(run_ms)
    assert window.read() == Latency(7.0, 7.0, 7.0, 7.0)
