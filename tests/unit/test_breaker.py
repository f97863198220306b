"""Doubt comes from failures and long runs; only a probe makes a node unhealthy, or well again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from executors.backends.base import Completion
from executors.breaker import (
    FAILURES_IN_ROW,
    OVERDUE_S,
    OVERDUE_TIMES,
    PROBE_FIRST_S,
    PROBE_MOST_S,
    TRUSTED_S,
    Breaker,
)
from executors.latency import Latency
from executors.retry import Failure
from schemas.outcomes import ErrorCategory

WELL = Completion({})
DOWN = Failure(ErrorCategory.UNAVAILABLE, "refused")
BUG = Failure(ErrorCategory.BACKEND_ERROR, "500")
FAST = Latency(50.0, p99_ms=80.0)


def doubted(*endings: Completion | Failure | None) -> bool:
    breaker = Breaker()
    for ending in endings:
        breaker.ran(ending, 0.0)
    assert breaker.unhealthy is None
    return breaker.probe_is_due(0.0)


def test_failures_in_a_row_that_blame_the_engine_raise_doubt() -> None:
    assert not doubted(*[DOWN] * (FAILURES_IN_ROW - 1))
    assert doubted(*[DOWN] * FAILURES_IN_ROW)
    assert doubted(DOWN, BUG, DOWN)


def test_any_answer_in_between_dispels_it() -> None:
    for answer in (WELL, Failure(ErrorCategory.BAD_REQUEST, "no")):
        assert not doubted(DOWN, DOWN, answer, DOWN, DOWN)


def test_a_run_that_expired_says_nothing_of_the_engine() -> None:
    assert doubted(DOWN, DOWN, None, DOWN)
    assert not doubted(*[None] * 10)


def test_overload_alone_is_no_reason_for_doubt() -> None:
    assert not doubted(*[Failure(ErrorCategory.OVERLOADED, "429")] * 20)


def test_a_run_is_overdue_by_the_clock_and_by_what_others_took() -> None:
    for usual, overdue_s in ((FAST, OVERDUE_S), (Latency(60_000.0), 60.0 * OVERDUE_TIMES)):
        breaker = Breaker()
        breaker.looked(overdue_s, usual, 0, 0.0)
        assert not breaker.probe_is_due(0.0)
        breaker.looked(overdue_s + 0.1, usual, 0, 0.0)
        assert breaker.probe_is_due(0.0)


def test_a_probe_that_passes_gives_a_long_run_time() -> None:
    breaker = Breaker()
    breaker.looked(60.0, FAST, 0, 0.0)
    breaker.probed(None, 1.0)
    breaker.looked(61.0, FAST, 0, TRUSTED_S)
    assert not breaker.probe_is_due(TRUSTED_S)
    breaker.looked(70.0, FAST, 0, 1.0 + TRUSTED_S)
    assert breaker.probe_is_due(1.0 + TRUSTED_S)


def test_what_fails_its_probe_is_unhealthy_until_it_passes_one() -> None:
    breaker = Breaker()
    breaker.probed("refused", 0.0)
    assert breaker.unhealthy == "refused"
    breaker.ran(WELL, 0.5)
    assert breaker.unhealthy == "refused"
    breaker.probed(None, 1.0)
    assert breaker.unhealthy is None
    assert not breaker.probe_is_due(1e9)


def test_it_is_probed_at_longer_and_longer_pauses() -> None:
    breaker, now, pauses = Breaker(), 0.0, []
    for _ in range(8):
        breaker.probed("away", now)
        step = 0.0
        while not breaker.probe_is_due(now + step):
            step += 0.5
        pauses.append(step)
        now += step
    assert pauses[:3] == [PROBE_FIRST_S, 2 * PROBE_FIRST_S, 4 * PROBE_FIRST_S]
    assert pauses[-1] == PROBE_MOST_S


def test_calls_that_hang_are_unhealthy_whatever_a_probe_says() -> None:
    breaker = Breaker()
    breaker.looked(0.0, FAST, 2, 0.0)
    breaker.probed(None, 0.0)
    assert breaker.unhealthy is not None
    assert "2 calls hang" in breaker.unhealthy
    breaker.looked(0.0, FAST, 0, 1.0)
    assert breaker.unhealthy is None


@given(
    st.lists(
        st.one_of(
            st.sampled_from([WELL, DOWN, BUG, None]),
            st.floats(0, 100),
            st.sampled_from(["probe fails", "probe passes"]),
        )
    )
)
def test_without_a_failed_probe_no_history_makes_it_unhealthy(history: list[object]) -> None:
    breaker, now, failed = Breaker(), 0.0, False
    for event in history:
        now += 1.0
        if isinstance(event, float):
            breaker.looked(event, FAST, 0, now)
        elif isinstance(event, str):
            failed = event == "probe fails"
            breaker.probed("away" if failed else None, now)
        else:
            assert event is None or isinstance(event, Completion | Failure)
            breaker.ran(event, now)
        assert (breaker.unhealthy is not None) == failed
        assert not failed or breaker.probe_is_due(now + PROBE_MOST_S)  # it always comes back
