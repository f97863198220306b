"""The `stable` controller settles, and turns rarely, whatever the depths do.

Its steps are taken once a second, as control takes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from schemas.control import Heading, Steering
from streams.policy import stable
from streams.policy.threshold import CEILING, FLOOR, START

SETTLED_S = 90
TURN_S = 15

Depths = tuple[float, float]

thresholds = st.integers(FLOOR, CEILING)
near = st.integers(0, 30)
records = near | st.integers(0, 5_000)
memories = st.none() | st.builds(
    Steering,
    gpu_depth=st.floats(0, 2 * CEILING),
    cpu_depth=st.floats(0, 2 * CEILING),
    heading=st.sampled_from(Heading),
    unused_s=st.floats(0, 1000),
    last_move=st.sampled_from((-1, 0, 1)),
    rested_s=st.floats(0, 15),
)
# Stretches of seconds with the same depths: what makes a controller flap comes in such runs.
weather = st.lists(
    st.tuples(st.tuples(records, records), st.integers(1, 30)), min_size=1, max_size=12
)


def course(threshold: int, steering: Steering | None, depths: Iterable[Depths]) -> list[int]:
    """Return the threshold before and after each step."""
    taken = [threshold]
    for gpu_depth, cpu_depth in depths:
        threshold, steering = stable.step(
            threshold, steering, elapsed_s=1.0, gpu_depth=gpu_depth, cpu_depth=cpu_depth
        )
        taken.append(threshold)
    return taken


def turns(taken: list[int]) -> list[int]:
    """Return the seconds between each two neighbouring moves in opposite directions."""
    moves = [(at, b - a) for at, (a, b) in enumerate(itertools.pairwise(taken)) if a != b]
    return [
        later - earlier
        for (earlier, before), (later, after) in itertools.pairwise(moves)
        if before * after < 0
    ]


@given(thresholds, memories, records, records)
def test_ninety_seconds_after_the_depths_came_to_rest_it_rests_and_turned_once_at_most(
    threshold: int, steering: Steering | None, gpu_depth: int, cpu_depth: int
) -> None:
    taken = course(threshold, steering, [(gpu_depth, cpu_depth)] * (SETTLED_S + 60))
    assert set(taken[SETTLED_S:]) == {taken[-1]}
    assert len(turns(taken)) <= 1


@given(thresholds, memories, weather)
def test_it_turns_at_most_four_times_a_minute_and_keeps_its_bounds_whatever_the_depths_do(
    threshold: int, steering: Steering | None, stretches: list[tuple[Depths, int]]
) -> None:
    taken = course(
        threshold, steering, [depths for depths, seconds in stretches for _ in range(seconds)]
    )
    assert all(seconds >= TURN_S for seconds in turns(taken))
    assert all(FLOOR <= value <= CEILING for value in taken)
    assert all(abs(b - a) <= max(1, a // 8) for a, b in itertools.pairwise(taken))


@given(thresholds, memories)
def test_without_any_queue_it_goes_home_and_stays(
    threshold: int, steering: Steering | None
) -> None:
    assert course(threshold, steering, [(0, 0)] * SETTLED_S)[-1] == START


@given(st.integers(FLOOR, 400), st.integers(0, 400))
def test_a_queue_far_beyond_it_winds_nothing_up(threshold: int, cpu_depth: int) -> None:
    # Overflow has no room left: where the threshold stands makes no difference to anything.
    beyond = 5 * threshold + cpu_depth
    assert set(course(threshold, None, [(beyond, cpu_depth)] * 600)) == {threshold}


def test_a_small_cpu_queue_that_it_allows_itself_does_not_raise_it() -> None:
    # Small models queue on the cpu up to the threshold, also while the gpu is idle: a rule that
    # goes up on that makes its own reason grow, up to the ceiling.
    threshold, steering = START, None
    for _ in range(600):
        threshold, steering = stable.step(
            threshold, steering, elapsed_s=1.0, gpu_depth=0, cpu_depth=threshold + 2
        )
    assert threshold == START
