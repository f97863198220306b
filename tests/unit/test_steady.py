"""A rate is that of a run under way."""

from __future__ import annotations

import pytest

from lab.instruments.steady import Steady


def test_what_comes_before_a_quarter_is_done_does_not_count() -> None:
    run = Steady(4000)
    for done, now_s in ((100, 0.0), (1500, 10.0), (2500, 11.0), (4000, 12.0)):
        assert not run.complete
        run.has_done(done, now_s)
    assert run.complete
    assert run.per_s() == (4000 - 1500) / 2


def test_a_run_that_ends_with_its_warm_up_has_no_rate() -> None:
    run = Steady(1000)
    run.has_done(1000, 5.0)
    with pytest.raises(ValueError, match="1000 of 1000"):
        run.per_s()
