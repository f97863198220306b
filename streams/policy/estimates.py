"""Estimates: how long a request will run on a compute type, from what nodes have measured.

What the snapshot tells of its model and size counts as much as there are runs behind it; the rest
is a prior, which goes with the request's estimated work: the time for each GFLOP of the nearest
size of the same model, else of all models. The fewer runs there are, the further the 95th
percentile is set beyond what they show, as few runs have not seen the slow ones. Pure; made from a
snapshot alone, so a replay estimates the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schemas.service import UNKNOWN_SIZE, ServiceTime, size_of, unit_of

PRIOR_RUNS = 4
"""The prior counts as so many runs."""
NOTHING_RAN = -1
"""`runs` of an estimate that nothing on its compute type stands behind, not even of other sizes."""
UNMEASURED = 2.0
"""Of what was never measured, one in twenty may take so many times as long as is thought."""
KINDS_KEPT_MAX = 1024
"""Models and sizes whose estimate is kept between snapshots: names are the callers'."""


class Estimate(NamedTuple):
    """A run's median and 95th percentile, ms, and how many runs are behind it."""

    p50_ms: float
    p95_ms: float
    runs: int


class _Rate(NamedTuple):
    """As an estimate, for each GFLOP, or for a request where the size is unknown."""

    p50: float
    p95: float
    runs: int


class Estimates:
    """What is known of one compute type.

    Attributes:
        told: what it was made from.
    """

    __slots__ = ("_kept", "_measured", "_overall", "told")

    def __init__(self, told: Sequence[ServiceTime]) -> None:
        self.told = told
        self._measured: dict[tuple[str, int], ServiceTime] | None = None
        self._overall: _Rate | None = None
        self._kept: dict[tuple[str, int], _Rate | None] = {}

    def run(self, model: str, gflops: float | None, otherwise_ms: float) -> Estimate:
        """Return what a run takes; `otherwise_ms` is the median where nothing was measured."""
        kind = model, size_of(gflops)
        try:
            rate = self._kept[kind]
        except KeyError:
            rate = self._rate(model, kind[1])
            if rate is not None:  # the fewer runs, the further the slow ones lie beyond them
                rate = rate._replace(p95=rate.p95 * (1 + 1 / (rate.runs + PRIOR_RUNS)))
            if len(self._kept) < KINDS_KEPT_MAX:
                self._kept[kind] = rate
        if rate is None:
            return Estimate(otherwise_ms, otherwise_ms * UNMEASURED, NOTHING_RAN)
        unit = unit_of(gflops)
        return Estimate(rate.p50 * unit, rate.p95 * unit, rate.runs)

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
        others = [
            one for one in self.told if one.model == model and one.size not in (size, UNKNOWN_SIZE)
        ]
        if others:
            nearest = min(others, key=lambda one: (abs(one.size - size), one.size))
            return _Rate(nearest.p50, nearest.p95, 0)
        if self._overall is None:
            self._overall = _overall([one for one in self.told if one.size != UNKNOWN_SIZE])
        return self._overall


def _overall(measured: Sequence[ServiceTime]) -> _Rate | None:
    """Return the time for each GFLOP over all models, each as often as it ran."""
    runs = 0
    p50 = p95 = 0.0
    for one in measured:
        runs += one.count
        p50 += one.count * one.p50
        p95 += one.count * one.p95
    return _Rate(p50 / runs, p95 / runs, 0) if runs else None
