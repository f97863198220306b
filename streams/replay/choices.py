"""One record's choices, as they were taken and as a policy takes them again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from schemas.decisions import DEAD, DecisionRow, DecisionsRecord
from schemas.errors import FormatError, UsageError
from schemas.features import Features
from schemas.outcomes import Reason
from streams.policy import Decision, Policy, View, policy


class Choice(NamedTuple):
    """What a row tells of a decision: all that can be compared."""

    outcome: str
    pool: str | None
    node: str | None
    partition: int
    express: bool
    released: str


class Again(NamedTuple):
    """One request: what was decided about it, and what is decided now.

    The view stands as it stood when it was decided, until the next one is asked for.
    """

    row: DecisionRow
    features: Features
    before: Decision
    after: Decision


def choice_of(decision: Decision) -> Choice:
    """Return what a row tells of a decision."""
    return Choice(
        decision.reason.value,
        decision.pool,
        decision.node,
        decision.partition,
        decision.express,
        decision.released,
    )


@lru_cache(maxsize=64)
def known_policy(name: str) -> Policy | None:
    """Return the policy of that name; None if this release does not know it."""
    try:
        return policy(name)
    except UsageError:
        return None


def recorded(row: DecisionRow) -> Choice:
    """Return what a row tells."""
    return Choice(row.outcome, row.pool, row.node, row.partition, row.express, row.released)


def decide_again(decider: Policy, record: DecisionsRecord, view: View) -> Iterator[Again]:
    """Yield each decided request with what the policy says now, on the record's view.

    What was decided before is what counts in the view, whatever the policy says: each choice is
    judged in the fleet as it was. Raises FormatError at a reason of a newer release.
    """
    for row in record.rows:
        if row.features is None:  # a repeat, or a record that is no request
            continue
        conversation, bound_to = row.features.conversation, row.bound_to
        view.bindings = {conversation: bound_to} if conversation and bound_to else {}
        after = decider.decide(row.features, view, record.now_ms)
        if row.outcome.startswith(DEAD):  # decided, and then not written: its load was counted
            view.add(after)
            continue
        before = Decision(
            _reason(row.outcome),
            record.threshold,
            row.pool,
            row.node,
            row.partition,
            row.express,
            row.released,
        )
        yield Again(row, row.features, before, after)
        view.add(before)


def _reason(outcome: str) -> Reason:
    try:
        return Reason(outcome)
    except ValueError:
        raise FormatError(f"reason {outcome!r} is of a newer release: upgrade this one") from None
