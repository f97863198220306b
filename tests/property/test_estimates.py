"""Estimates: what runs of other sizes took tells what one of this size takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.service import ServiceTime, size_of
from streams.policy.estimates import PRIOR_RUNS, Estimates

POWERS = st.integers(0, 7)


@given(
    each=st.floats(0.01, 100.0),
    alone=st.floats(0.0, 1000.0),
    powers=st.lists(POWERS, min_size=2, max_size=6, unique=True),
    count=st.integers(1, 40),
    wanted=POWERS,
)
def test_runs_that_take_a_part_for_themselves_and_a_part_by_their_work_are_foreseen_at_any_size(
    each: float, alone: float, powers: list[int], count: int, wanted: int
) -> None:
    rates = {4.0**power: alone / 4.0**power + each for power in powers}
    told = [
        ServiceTime(model="m", size=size_of(g), count=count, p50=rate, p95=1.2 * rate)
        for g, rate in rates.items()
    ]
    gflops = 4.0**wanted
    found = Estimates(told).run("m", gflops, 1.0)
    # Of two known sizes the known one has one other, which tells by its work alone.
    if gflops not in rates or len(rates) > 2:
        assert found.p50_ms == pytest.approx(alone + each * gflops, rel=1e-6)
        doubt = 1 + 1 / (found.runs + PRIOR_RUNS)
        assert found.p99_ms >= 1.2 * doubt * found.p50_ms * (1 - 1e-6)
