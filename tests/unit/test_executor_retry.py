"""After a failure a node tries again, hands back, or ends: the retry rule."""

from __future__ import annotations

import itertools

import pytest

from executors.retry import (
    ATTEMPTS_MAX,
    BACKOFF_FIRST_MS,
    BACKOFF_MOST_MS,
    EXCLUDED_MS,
    RETRY_WITHIN_MS,
    End,
    Failure,
    Refuse,
    RetryHere,
    Verdict,
    after_failure,
    give_up_ms,
)
from schemas.headers import FOR_GOOD
from schemas.outcomes import Disposition, ErrorCategory

NOW = 1_000_000.0
FAR = NOW + RETRY_WITHIN_MS

OVERLOADED = ErrorCategory.OVERLOADED


def verdict(  # the one place that names all arguments, so that a test names what it is about
    category: ErrorCategory,
    *,
    attempt: int = 1,
    tries: int = 1,
    give_up_at_ms: float = FAR,
    chance: float = 0.0,
    retry_after_ms: float | None = None,
) -> Verdict:
    return after_failure(
        Failure(category, "why", retry_after_ms),
        attempt=attempt,
        tries=tries,
        give_up_at_ms=give_up_at_ms,
        now_ms=NOW,
        chance=chance,
    )


@pytest.mark.parametrize("category", ErrorCategory)
def test_each_category_does_what_it_says_of_itself(category: ErrorCategory) -> None:
    expected = {
        Disposition.RETRY_HERE: RetryHere,
        Disposition.REFUSE: Refuse,
        Disposition.FINAL: End,
    }
    assert type(verdict(category)) is expected[category.disposition]


def test_a_final_error_ends_with_its_own_category_and_message() -> None:
    assert verdict(ErrorCategory.BAD_REQUEST) == End(ErrorCategory.BAD_REQUEST, "why")


def test_pauses_double_up_to_their_bound() -> None:
    pauses = [
        found.at_ms - NOW
        for tries in range(1, 20)
        if isinstance(found := verdict(OVERLOADED, tries=tries), RetryHere)
    ]
    assert pauses[:4] == [BACKOFF_FIRST_MS * factor for factor in (1, 2, 4, 8)]
    assert max(pauses) == BACKOFF_MOST_MS
    assert len(pauses) == 19


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.5, 0.999])
def test_jitter_takes_at_most_half_of_a_pause(chance: float) -> None:
    found = verdict(OVERLOADED, chance=chance)
    assert isinstance(found, RetryHere)
    assert BACKOFF_FIRST_MS / 2 < found.at_ms - NOW <= BACKOFF_FIRST_MS


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_a_node_never_returns_before_retry_after(chance: float) -> None:
    found = verdict(OVERLOADED, retry_after_ms=3000, chance=chance)
    assert isinstance(found, RetryHere)
    assert found.at_ms >= NOW + 3000


def test_a_retry_after_of_zero_is_no_busy_loop() -> None:
    found = verdict(OVERLOADED, retry_after_ms=0)
    assert isinstance(found, RetryHere)
    assert found.at_ms >= NOW + BACKOFF_FIRST_MS


def test_what_could_only_be_retried_too_late_is_refused_at_once() -> None:
    said = "overloaded: why"
    assert verdict(OVERLOADED, give_up_at_ms=NOW) == Refuse(int(NOW + EXCLUDED_MS), said)
    assert verdict(OVERLOADED, retry_after_ms=60_000) == Refuse(int(NOW + 60_000), said)


@pytest.mark.parametrize(
    ("category", "until_ms"),
    [
        (ErrorCategory.MODEL_NOT_FOUND, FOR_GOOD),
        (ErrorCategory.ADAPTER_NOT_FOUND, FOR_GOOD),
        (ErrorCategory.BACKEND_ERROR, int(NOW + EXCLUDED_MS)),
    ],
)
def test_what_a_node_lacks_excludes_it_for_good_and_a_bad_moment_does_not(
    category: ErrorCategory, until_ms: int
) -> None:
    assert verdict(category) == Refuse(until_ms, f"{category.value}: why")


@pytest.mark.parametrize(
    "category", [c for c in ErrorCategory if c.disposition is not Disposition.FINAL]
)
def test_the_last_attempt_ends_as_attempts_exhausted_and_says_why(category: ErrorCategory) -> None:
    found = verdict(category, attempt=ATTEMPTS_MAX, give_up_at_ms=NOW)
    assert isinstance(found, End)
    assert found.category is ErrorCategory.ATTEMPTS_EXHAUSTED
    assert category.value in found.message


def test_the_last_attempt_is_still_retried_on_its_node() -> None:
    assert isinstance(verdict(OVERLOADED, attempt=ATTEMPTS_MAX), RetryHere)


def test_a_node_keeps_half_of_the_time_left_but_ten_seconds_at_most() -> None:
    assert give_up_ms(NOW, deadline_ms=NOW + 1000, expires_at_ms=NOW + 9e9) == NOW + 500
    assert give_up_ms(NOW, deadline_ms=NOW + 9e9, expires_at_ms=NOW + 9e9) == NOW + RETRY_WITHIN_MS


def test_once_the_objective_is_missed_expiry_is_the_goal() -> None:
    assert give_up_ms(NOW, deadline_ms=NOW - 1, expires_at_ms=NOW + 4000) == NOW + 2000
    assert give_up_ms(NOW, deadline_ms=NOW - 2, expires_at_ms=NOW - 1) == NOW


def test_retries_on_a_node_end_by_themselves() -> None:
    """Whatever the chance, the pauses lead past the bound after a few tries."""
    for chance in (0.0, 0.5, 0.999):
        now = NOW
        for tries in itertools.count(1):
            found = after_failure(
                Failure(OVERLOADED, "why"),
                attempt=1,
                tries=tries,
                give_up_at_ms=FAR,
                now_ms=now,
                chance=chance,
            )
            if not isinstance(found, RetryHere):
                break
            assert found.at_ms < FAR
            now = found.at_ms
        assert isinstance(found, Refuse)
        assert tries < 12
