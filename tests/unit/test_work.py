"""Work is counted alike by whoever counts it, and differences of counts survive their wrap."""

from __future__ import annotations

import pytest

from schemas.request import NUMBER_MAX
from schemas.work import MFLOP_MAX, MFLOP_WRAP, mflop_ahead, mflop_of


@pytest.mark.parametrize(
    ("gflops", "mflop"),
    [(None, 0), (0.0, 0), (0.0004, 0), (0.0006, 1), (1.1, 1_100), (26_000.0, 26_000_000),
     (NUMBER_MAX, MFLOP_MAX)],
)  # fmt: skip
def test_an_estimate_is_counted_in_thousandths_of_a_gflop(gflops: float | None, mflop: int) -> None:
    assert mflop_of(gflops) == mflop


@pytest.mark.parametrize("behind", [0, 5, MFLOP_WRAP - 1, MFLOP_WRAP // 2])
@pytest.mark.parametrize("ahead", [-7, 0, 7, MFLOP_WRAP // 2 - 1])
def test_a_difference_is_right_on_both_sides_of_the_wrap(behind: int, ahead: int) -> None:
    assert mflop_ahead((behind + ahead) % MFLOP_WRAP, behind) == ahead
