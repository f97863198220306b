"""Estimates: how long a request will run on a compute type, from what nodes have measured.

What the snapshot tells of its model and size counts as much as there are runs behind it; the rest
is a prior, by the request's estimated work: a run takes a + b x work, fitted through the other
sizes of the same model, else through all there are. The fewer runs there are, the further their
95th percentile is set beyond what they show, as few runs have not seen the slow ones; the 99th,
which work with an objective is planned by, follows from it. Pure; made from a snapshot alone, so a
replay estimates the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ldexp, sqrt
from typing import NamedTuple

from schemas.service import UNKNOWN_SIZE, ServiceTime, size_of, unit_of

PRIOR_RUNS = 4
"""The prior counts as so many runs."""
NOTHING_RAN = -1
"""`runs` of an estimate that nothing on its compute type stands behind, not even of other sizes."""
SLOWEST = 1.4
"""One run in a hundred is so many times as far from the median as one in twenty, if they lie about
it as most things do (2.33 and 1.64 deviations)."""
UNMEASURED = 2.0
"""Of what was never measured, the slowest run in a hundred is taken to last so many times as long
as is thought: a guess."""
KINDS_KEPT_MAX = 1024
"""Models and sizes whose estimate is kept between snapshots: names are the callers'."""
NEAR = 2
"""Sizes apart, a factor of 2 in work, for which one measured size alone tells of another."""
_ROOT_2 = sqrt(2.0)


class Estimate(NamedTuple):
    """A run's median and 99th percentile, ms, and how many runs are behind it."""

    p50_ms: float
    p99_ms: float
    runs: int


class _Rate(NamedTuple):
    """What is told or thought of a size: for each GFLOP, or for a request where it is unknown."""

    p50: float
    p95: float
    runs: int


Kind = tuple[str, int, float]
"""Model and size of a request, and its GFLOPs, 1 where they are unknown."""


def kind_of(model: str, gflops: float | None) -> Kind:
    """Return by what runs of a request are looked up: the same on all compute types."""
    return model, size_of(gflops), unit_of(gflops)


def unmeasured(mean_ms: float) -> Estimate:
    """Return what a run takes where only its nodes' mean is known."""
    return Estimate(mean_ms, mean_ms * UNMEASURED, NOTHING_RAN)


class Estimates:
    """What is known of one compute type.

    Attributes:
        told: what it was made from.
    """

    __slots__ = ("_kept", "_measured", "told")

    def __init__(self, told: Sequence[ServiceTime]) -> None:
        self.told = told
        self._measured: dict[tuple[str, int], ServiceTime] | None = None
        self._kept: dict[tuple[str, int], Estimate | None] = {}

    def run(self, model: str, gflops: float | None, otherwise_ms: float) -> Estimate:
        """Return what a run takes; `otherwise_ms` is the median where nothing was measured."""
        return self.measured(kind_of(model, gflops)) or unmeasured(otherwise_ms)

    def measured(self, kind: Kind) -> Estimate | None:
        """Return what a run takes by what was measured; None where that says nothing."""
        model, size, unit = kind
        try:
            each = self._kept[model, size]
        except KeyError:
            each = self._each(model, size)
            if len(self._kept) >= KINDS_KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[model, size] = each
        if each is None:
            return None
        p50, p99, runs = each
        return Estimate(p50 * unit, p99 * unit, runs)

    def _each(self, model: str, size: int) -> Estimate | None:
        """Return what each GFLOP takes; the request, where its size is unknown."""
        rate = self._rate(model, size)
        if rate is None:
            return None
        # The fewer runs, the further the slow ones lie beyond them.
        p95 = rate.p95 * (1 + 1 / (rate.runs + PRIOR_RUNS))
        return Estimate(rate.p50, rate.p50 + SLOWEST * (p95 - rate.p50), rate.runs)

    def _rate(self, model: str, size: int) -> _Rate | None:
        if self._measured is None:
            self._measured = {(one.model, one.size): one for one in self.told}
        prior = self._prior(model, size)
        own = self._measured.get((model, size))
        if own is None:
            return prior
        if prior is None:
            return _Rate(own.p50, own.p95, own.count)
        share = own.count / (own.count + PRIOR_RUNS)
        return _Rate(
            prior.p50 + share * (own.p50 - prior.p50),
            prior.p95 + share * (own.p95 - prior.p95),
            own.count,
        )

    def _prior(self, model: str, size: int) -> _Rate | None:
        """Return what is thought without runs of this very size; None if nothing is known."""
        if size == UNKNOWN_SIZE:
            return None
        sized = [one for one in self.told if one.size != UNKNOWN_SIZE]
        others = [one for one in sized if one.model == model and one.size != size] or sized
        if not others:
            return None
        nearest = min(others, key=lambda one: (abs(one.size - size), one.size, one.model))
        if abs(size - nearest.size) > NEAR and all(one.size == nearest.size for one in others):
            return None  # of one size alone nobody knows which part of it goes with the work
        # How many times as large as each of them the wanted size is: their GFLOP in its terms.
        ratios = [_ratio(size - one.size) for one in others]
        # The further a size is off, the less it tells: else one run whose estimate is next to
        # nothing, so that a GFLOP of it takes for ever, would outweigh all others.
        near = abs(size - nearest.size)
        weights = [ldexp(one.count, near - abs(size - one.size)) for one in others]
        return _Rate(
            _fitted(ratios, [one.p50 for one in others], weights),
            # A line through few runs may be far too flat: beyond them all of it goes with the work.
            max(_fitted(ratios, [one.p95 for one in others], weights), nearest.p95),
            0,
        )


def _ratio(steps: int) -> float:
    """Return the root of 2 to so many, exactly the same on every machine, which `**` is not."""
    return ldexp(_ROOT_2 if steps % 2 else 1.0, steps // 2)


def _fitted(ratios: Sequence[float], rates: Sequence[float], weights: Sequence[float]) -> float:
    """Return the time for a unit of work at ratio 1, of runs that take a + b x work.

    A unit then takes b + a x ratio: weighted least squares, where neither part may be negative.
    """
    total = mean_x = mean_y = 0.0
    for x, y, weight in zip(ratios, rates, weights, strict=True):
        total += weight
        mean_x += weight * x
        mean_y += weight * y
    if not total:
        return rates[0]
    mean_x, mean_y = mean_x / total, mean_y / total
    spread_xx = spread_xy = square_x = product = 0.0
    for x, y, weight in zip(ratios, rates, weights, strict=True):
        spread_xx += weight * (x - mean_x) * (x - mean_x)
        spread_xy += weight * (x - mean_x) * (y - mean_y)
        square_x += weight * x * x
        product += weight * x * y
    if spread_xx <= 0.0 or spread_xy <= 0.0:
        return mean_y
    slope = spread_xy / spread_xx
    level = mean_y - slope * mean_x
    return level + slope if level >= 0.0 else product / square_x
