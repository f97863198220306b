"""Greedy decisions beside programs that know the future: what they cost, how long they take."""

from __future__ import annotations

import time
from dataclasses import replace

from lab.experiments.setting import Setting
from lab.savings.bound import lower_bound
from lab.tables import Table
from schemas.features import Features
from streams.policy import Policy, policy
from streams.policy.offers import Choice, Offers

WHOLE_REQUESTS = 150
"""Of the slice, for the program in whole runs, which takes seconds for so few."""


def greedy_and_optimum(at: Setting) -> Table:
    """Compare greedy policies with linear programs that know the future: cost and decision time."""
    requests = at.requests()
    few = requests[:WHOLE_REQUESTS]
    rows = []
    for name, some in (("slice", requests), (f"first {len(few)}", few)):
        least = lower_bound(at.fleet, some)
        rows.append((f"{name}: bound (linear program)", f"{least.metered_cost:,.0f}", "",
                     f"{least.solve_s / len(some) * 1e6:,.0f}"))  # fmt: skip
        if some is few:
            whole = lower_bound(at.fleet, some, whole=True)
            rows.append((f"{name}: in whole runs (mixed-integer)", f"{whole.metered_cost:,.0f}",
                         f"{whole.metered_cost / least.metered_cost - 1:+.1%}",
                         f"{whole.solve_s / len(some) * 1e6:,.0f}"))  # fmt: skip
        for one in ("overflow", "predictive"):
            chosen, clock = policy(one), _Stopwatch()
            found = at.run(some, clock.on(chosen))
            rows.append((f"{name}: {one}", f"{found.metered_cost:,.0f}",
                         f"{found.metered_cost / least.metered_cost - 1:+.1%}",
                         f"{clock.median_us():.0f}"))  # fmt: skip
    return Table(
        "Greedy and optimum",
        "Exact optimisation takes over a millisecond a request, a greedy decision under 10 us. The "
        "programs know all requests beforehand; their time is the whole program's, by request.",
        ("", "metered cost", "above the bound", "us a request"),
        rows,
    )


class _Stopwatch:
    """Times a policy's decisions, one by one."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def on(self, timed: Policy) -> Policy:
        def choose(features: Features, offers: Offers, threshold: int) -> Choice:
            began = time.perf_counter()
            offer, reason, node = timed.choose(features, offers, threshold)
            chosen = offer, reason, node or timed.pick(features, offer)
            self._times.append(time.perf_counter() - began)
            return chosen

        return replace(timed, choose=choose)

    def median_us(self) -> float:
        return sorted(self._times)[len(self._times) // 2] * 1e6
