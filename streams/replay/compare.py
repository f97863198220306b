"""What another policy, threshold or price table would have chosen, and what that comes to.

Each choice is judged in the fleet as it was, so queues that other choices would have made are not
in it (the simulator has those). Cost and objectives are expectations on both sides: the run that
nodes have measured for its model and size, and the wait at the chosen node as the router knew it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from schemas.decisions import DecisionsRecord
from streams.policy import Policy
from streams.policy.expectation import expected
from streams.replay.choices import decide_again, known_policy
from streams.replay.views import Views

BLOCKS_MAX = 200
"""Decisions that follow each other share a queue: what is drawn again are stretches of time."""
DRAWS = 2000
"""Bootstrap resamples: the ends of a 95 % interval are the 50th of each side."""
SEED = 1
_TAIL = 0.025

NO_NODE = "no live node was chosen, so no cost is known"


class Sums(NamedTuple):
    """Of some decisions: cost before and after; with an objective, and of them met before, after.

    `before` is at the prices that were configured, `before_at` at those that are asked about.
    """

    before: float = 0.0
    before_at: float = 0.0
    after: float = 0.0
    bound: int = 0
    met_before: int = 0
    met_after: int = 0


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


class Compared(NamedTuple):
    """What was found.

    Attributes:
        decisions: that were judged on both sides.
        otherwise: of them, those that go to another pool or node.
        moves: (pool before, pool after) of those that change pools, by count; "none": not routed.
        sums: of all.
        cost: change of cost by the other choices, at the prices asked about, as a share.
        attainment: change of the share of objectives met.
        skipped: decisions not judged, by reason.
    """

    decisions: int
    otherwise: int
    moves: Mapping[tuple[str, str], int]
    sums: Sums
    cost: Interval
    attainment: Interval
    skipped: Mapping[str, int]


class Comparison:
    """Takes records in order and decides each request again as asked.

    Args:
        policy: instead of the recorded one.
        threshold: instead of the published one, for policies that use it.
        prices: cost coefficients by pool instead of the configured ones.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        threshold: int | None = None,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        self._policy, self._threshold = policy, threshold
        self._views = Views(prices)
        self._stretches: list[Sums] = []
        self._decisions = self._otherwise = 0
        self._moves: Counter[tuple[str, str]] = Counter()
        self._skipped: Counter[str] = Counter()

    def take(self, record: DecisionsRecord) -> None:
        """Decide a record again."""
        view = self._views.of(record)
        policy = self._policy or known_policy(record.policy)
        if policy is None or isinstance(view, str):
            why = view if isinstance(view, str) else f"policy {record.policy} is not known here"
            self._skipped[why] += sum(row.features is not None for row in record.rows)
            return
        if self._threshold is not None:
            policy = replace(policy, threshold=self._threshold)
        configured = {pool.name: pool.cost_coefficient for pool in record.view.pools}
        prices = {pool.name: pool.cost_coefficient for pool in view.configured}
        sums = Sums()
        for again in decide_again(policy, record, view):
            before = expected(again.features, again.before, view, configured)
            before_at = expected(again.features, again.before, view, prices)
            after = expected(again.features, again.after, view, prices)
            if before is None or before_at is None or after is None:
                self._skipped[NO_NODE] += 1
                continue
            self._decisions += 1
            places = (again.before.pool, again.before.node), (again.after.pool, again.after.node)
            if places[0] != places[1]:
                self._otherwise += 1
            if again.before.pool != again.after.pool:
                self._moves[again.before.pool or "none", again.after.pool or "none"] += 1
            sums = Sums(
                sums.before + before.cost,
                sums.before_at + before_at.cost,
                sums.after + after.cost,
                sums.bound + (before.met is not None),
                sums.met_before + bool(before.met),
                sums.met_after + bool(after.met),
            )
        self._stretches.append(sums)

    def result(self) -> Compared:
        """Return what was found so far."""
        blocks = blocks_of(self._stretches)
        total = _total(blocks)
        draw = random.Random(SEED)  # noqa: S311  seeded on purpose, nothing is secret
        drawn = (
            [_total(draw.choices(blocks, k=len(blocks))) for _ in range(DRAWS)] if blocks else []
        )
        return Compared(
            self._decisions,
            self._otherwise,
            dict(self._moves),
            total,
            _interval(_cost(total), [_cost(sums) for sums in drawn]),
            _interval(_attainment(total), [_attainment(sums) for sums in drawn]),
            dict(+self._skipped),
        )


def blocks_of(stretches: Sequence[Sums]) -> list[Sums]:
    """Return the sums of at most 200 stretches of consecutive ones, as long as each other."""
    count = min(BLOCKS_MAX, len(stretches))
    edges = [len(stretches) * number // count for number in range(count + 1)] if count else []
    return [_total(stretches[low:high]) for low, high in pairwise(edges)]


def _total(stretches: Sequence[Sums]) -> Sums:
    return Sums(*map(sum, zip(*stretches, strict=True))) if stretches else Sums()


def _cost(sums: Sums) -> float:
    return sums.after / sums.before_at - 1 if sums.before_at else 0.0


def _attainment(sums: Sums) -> float:
    return (sums.met_after - sums.met_before) / sums.bound if sums.bound else 0.0


def _interval(estimate: float, drawn: Sequence[float]) -> Interval:
    if not drawn:
        return Interval(estimate, estimate, estimate)
    ordered = sorted(drawn)
    tail = int(len(ordered) * _TAIL)
    return Interval(estimate, ordered[tail], ordered[-1 - tail])
