"""What a choice is expected to cost and whether it meets the objective, by what the view knows.

One measure for both sides of a comparison (a shadow, a replay): the median run of requests of its
model and size on the chosen compute type, as nodes have measured it, and the wait for a slot of the
chosen node. It does not know what became of the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schemas.features import Features, objective_ms
from streams.policy.decision import Decision
from streams.policy.view import View

_MS_PER_S = 1000


class Expected(NamedTuple):
    """What is expected of one choice.

    Attributes:
        cost: cost coefficient x seconds in a slot.
        met: whether wait and run together are within the objective; None without one.
    """

    cost: float
    met: bool | None


def expected(
    features: Features, decision: Decision, view: View, prices: Mapping[str, float]
) -> Expected | None:
    """Return what is expected of a choice; None where no live node is chosen: nothing is known.

    Args:
        features: of the request.
        decision: as taken on this view, which does not count it yet.
        view: what was known.
        prices: cost coefficients by pool.
    """
    slo_ms = objective_ms(features.slo_ms, features.priority)
    if decision.pool is None:
        return Expected(0.0, None if slo_ms is None else False)
    pool = view.pools[decision.pool]
    node = pool.live.get(decision.node or "")
    if node is None:
        return None
    run_ms = pool.estimates.run(features.model, features.gflops, node.latency_ms).p50_ms
    return Expected(
        prices[decision.pool] * run_ms / _MS_PER_S,
        None if slo_ms is None else node.wait_ms + run_ms <= slo_ms,
    )
