"""The overflow threshold moves by one a second at most, and never out of bounds."""

from __future__ import annotations

import pytest

from streams.policy import threshold


@pytest.mark.parametrize(
    ("before", "gpu_depth", "cpu_depth", "after"),
    [
        (10, 6, 0, 9),  # the gpu is behind, the cpu has nothing: spill earlier
        (10, 5, 0, 10),
        (10, 6, 1, 10),
        (2, 1000, 0, 2),  # floor
        (10, 2, 11, 11),  # the cpu is behind, the gpu is not: spill later
        (10, 3, 11, 10),
        (10, 2, 10, 10),
        (1000, 0, 5000, 1000),  # ceiling
        (10, 0, 0, 10),
        (10, 50, 50, 10),
    ],
)
def test_step(before: int, gpu_depth: int, cpu_depth: int, after: int) -> None:
    assert threshold.step(before, gpu_depth=gpu_depth, cpu_depth=cpu_depth) == after


def test_it_starts_between_its_bounds() -> None:
    assert (threshold.FLOOR, threshold.START, threshold.CEILING) == (2, 10, 1000)
