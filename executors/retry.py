"""What happens after a failure: try again here, hand the request back, or end it.

Pure; time (epoch ms) and chance (a number in [0, 1)) are arguments. It knows an error only by its
category, which says itself whether it is worth repeating.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.headers import FOR_GOOD
from schemas.outcomes import Disposition, ErrorCategory

ATTEMPTS_MAX = 4
"""Nodes that may try one request: with three default pools each is tried once, and one again."""
RETRY_WITHIN_MS = 10_000.0
"""A node that is overloaded for longer is better left to the routers."""
BUDGET_SHARE = 0.5
"""Of the time left at the first failure; the other half is the next node's."""
BACKOFF_FIRST_MS = 100.0
BACKOFF_MOST_MS = 5_000.0
"""Doubling from 100 ms reaches it at the seventh pause; longer ones would miss the moment."""
JITTER_SHARE = 0.5
"""Up to this share of a pause is left to chance, so that nodes do not return in step."""
EXCLUDED_MS = 5_000.0
"""How long a node that gives no Retry-After is left alone."""

_PERMANENT = (ErrorCategory.MODEL_NOT_FOUND, ErrorCategory.ADAPTER_NOT_FOUND)
"""What a node that lacks it will lack later too."""


class Failure(NamedTuple):
    """Why a run ended without a result.

    Attributes:
        retry_after_ms: how long the backend asked to be left alone; None if it did not say.
    """

    category: ErrorCategory
    message: str
    retry_after_ms: float | None = None


class RetryHere(NamedTuple):
    """Start again on this node, not before `at_ms`."""

    at_ms: float


class Refuse(NamedTuple):
    """Hand back to the routers and say why; excluded until `until_ms` (or FOR_GOOD)."""

    until_ms: int
    why: str


class End(NamedTuple):
    """End with an error result."""

    category: ErrorCategory
    message: str


Verdict = RetryHere | Refuse | End


def give_up_ms(first_failed_ms: float, deadline_ms: float, expires_at_ms: float) -> float:
    """Return until when a request is retried on this node: half the time left, at most 10 s.

    What is left is the way to the deadline; once that is missed, the way to expiry: a late answer
    is still an answer.
    """
    goal_ms = deadline_ms if deadline_ms > first_failed_ms else expires_at_ms
    left_ms = max(0.0, goal_ms - first_failed_ms)
    return first_failed_ms + min(RETRY_WITHIN_MS, left_ms * BUDGET_SHARE)


def after_failure(
    failure: Failure,
    *,
    attempt: int,
    tries: int,
    give_up_at_ms: float,
    now_ms: float,
    chance: float,
) -> Verdict:
    """Return what to do about a failure.

    Args:
        failure: what went wrong.
        attempt: which of the nodes' attempts this is, from 1.
        tries: how often this node has run the request, from 1.
        give_up_at_ms: see `give_up_ms`.
        now_ms: epoch ms.
        chance: in [0, 1), for the jitter.
    """
    disposition = failure.category.disposition
    if disposition is Disposition.FINAL:
        return End(failure.category, failure.message)
    if disposition is Disposition.RETRY_HERE:
        at_ms = now_ms + _pause_ms(failure, tries, chance)
        if at_ms < give_up_at_ms:
            return RetryHere(at_ms)
    if attempt >= ATTEMPTS_MAX:
        return exhausted(failure, attempt)
    said = _said(failure)
    if failure.category in _PERMANENT:
        return Refuse(FOR_GOOD, said)
    excluded_ms = EXCLUDED_MS if failure.retry_after_ms is None else failure.retry_after_ms
    return Refuse(int(now_ms + excluded_ms), said)


def exhausted(failure: Failure | None, attempt: int) -> End:
    """Return the end of a request that no node could run."""
    last = f"; the last said {_said(failure)}" if failure else ""
    return End(ErrorCategory.ATTEMPTS_EXHAUSTED, f"{attempt} attempts failed{last}")


def _said(failure: Failure) -> str:
    return f"{failure.category.value}: {failure.message}"


def _pause_ms(failure: Failure, tries: int, chance: float) -> float:
    if failure.retry_after_ms is not None:
        # Never sooner than asked, and a Retry-After of 0 must not become a busy loop.
        return max(failure.retry_after_ms, BACKOFF_FIRST_MS) * (1.0 + JITTER_SHARE * chance)
    pause_ms = min(BACKOFF_MOST_MS, BACKOFF_FIRST_MS * 2.0 ** (tries - 1))
    return pause_ms * (1.0 - JITTER_SHARE * chance)
