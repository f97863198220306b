"""Both controllers in a closed loop: the very policy routes, queues form, the threshold answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.benches.queue_model import Second
from lab.benches.threshold import FLEETS, Answer, Fleet, answer
from lab.benches.threshold_plot import plot_threshold
from streams.policy.controllers import CONTROLLERS

SETTLES_WITHIN_S = 30
TURNS_MAX = 2


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda fleet: fleet.name)
def test_the_stable_controller_settles_after_each_step_of_the_load_and_comes_back(
    fleet: Fleet,
) -> None:
    found = answer(fleet, "stable")
    assert all(value is not None and value < SETTLES_WITHIN_S for value in found.settled_s)
    assert found.ends_at[-1] == 10
    assert found.overshoot <= 1
    assert found.turns <= TURNS_MAX


def test_the_articles_rule_does_not_come_back_and_may_never_settle() -> None:
    room, small = (answer(fleet, "article") for fleet in FLEETS)
    assert room.ends_at == (10, 5, 5)  # that the load has gone makes no difference
    assert small.settled_s[-1] is None
    assert small.ends_at[-1] > 100


def test_the_plot_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    course = tuple(Second(float(at), at % 7.0, 0.0, 10) for at in range(5))
    nothing = (0.0, 0.0, 0.0)
    answers = [
        Answer("a fleet", name, nothing, (10, 10, 10), 0, 0.0, 0, course) for name in CONTROLLERS
    ]
    for file in (tmp_path / "one.svg", tmp_path / "two.svg"):
        plot_threshold(answers, file)
    drawn = (tmp_path / "one.svg").read_bytes()
    assert b"stable: gpu queue" in drawn
    assert drawn == (tmp_path / "two.svg").read_bytes()
