"""A gap is time in which work waited and no result came; a partition at rest has none."""

from __future__ import annotations

import pytest

from lab.instruments.gaps import Ending, longest_gap_s

STEADY = [Ending(n - 0.1, float(n)) for n in range(1, 11)]
"""One request a second, each answered after 0.1 s."""
STALLED = [Ending(n - 0.1, 7.5 if 4 <= n <= 7 else float(n)) for n in range(1, 11)]
"""The same, but what came from 3.9 s on was answered at 7.5 s."""


def test_where_nothing_waits_there_is_no_gap_however_rare_results_are() -> None:
    assert longest_gap_s(STEADY, 0, 20) == pytest.approx(0.1)


def test_a_gap_begins_when_the_oldest_request_began_to_wait() -> None:
    assert longest_gap_s(STALLED, 0, 20) == pytest.approx(7.5 - 3.9)


def test_under_load_a_gap_begins_with_the_result_before_it() -> None:
    busy = [Ending(0.0, 1.0), Ending(0.0, 4.0), Ending(0.0, 4.5)]
    assert longest_gap_s(busy, 0, 20) == pytest.approx(3.0)


def test_a_gap_counts_for_each_stretch_that_it_reaches_into() -> None:
    assert longest_gap_s(STALLED, 5, 6) == pytest.approx(7.5 - 3.9)
    assert longest_gap_s(STALLED, 8, 20) == pytest.approx(0.1)


def test_a_partition_without_work_has_none() -> None:
    assert longest_gap_s(STEADY, 11, 20) is None
    assert longest_gap_s([], 0, 20) is None
