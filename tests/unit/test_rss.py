"""Growth is what a line through the late samples says; before that, memory may fill."""

from __future__ import annotations

import os

import pytest

from lab.instruments.rss import Sizes, growth_of

FILLING = [(float(s), 50.0 + s) for s in range(180)]


def test_what_filled_before_the_moment_is_no_growth() -> None:
    growth = growth_of(FILLING + [(float(s), 230.0) for s in range(180, 300)], from_s=180)
    assert growth.per_minute_mb == pytest.approx(0.0)
    assert (growth.last_mb, growth.most_mb) == (230.0, 230.0)


def test_what_grows_afterwards_is_told_by_the_minute() -> None:
    late = [(float(s), 230.0 + (s - 180) / 60 * 1.5 + s % 2) for s in range(180, 600)]
    assert growth_of(FILLING + late, from_s=180).per_minute_mb == pytest.approx(1.5, rel=0.02)


def test_less_than_a_minute_tells_nothing() -> None:
    assert growth_of(FILLING, from_s=150).per_minute_mb is None


def test_a_process_has_a_size() -> None:
    assert 5 < Sizes({"me": os.getpid()}).sample(0.0)["me"] < 5000
