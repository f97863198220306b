"""What a shadow policy is said to have done differently, and that its faults are its own."""

from __future__ import annotations

import pytest

from runtime.metrics import Metrics
from schemas.features import Features
from schemas.outcomes import Reason
from schemas.pools import DEFAULT_POOLS
from streams.policy import Policy, policy
from streams.policy.offers import Offer, Offers
from streams.router.meter import RouterMetrics
from streams.router.shadow import ROUTING, SHADOW, Shadowed
from tests.fleet import NOW_MS, fleet, full, node, request

PRICES = {pool.name: pool.cost_coefficient for pool in DEFAULT_POOLS}
BUSY = fleet(full("gpu-1"), node("cpu-1", latency_ms=100.0), pools=DEFAULT_POOLS)


def faulty(features: Features, offers: Offers, threshold: int) -> tuple[Offer, Reason]:
    raise ZeroDivisionError(features, offers, threshold)


def test_divergence_cost_and_objectives_of_both_sides_are_metrics() -> None:
    # gpu-1 has 10 in its queue: overflow goes to cpu-1 at 100 ms, gpu-only waits 118.75 ms in all.
    shadowed = Shadowed(policy("overflow"), policy("gpu-only"), PRICES)
    for slo_ms in (110.0, 110.0, None):
        decision = shadowed.decide(request(slo_ms=slo_ms), BUSY, NOW_MS)
        assert (shadowed.name, decision.pool) == ("overflow", "cpu")
    shadowed.decide(request(expires_at_ms=NOW_MS), BUSY, NOW_MS)
    metrics = Metrics("router", "test")
    RouterMetrics(metrics).shadow(shadowed.take_tally())

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"overspill_shadow_{name}_total", labels)

    assert value("decisions", pool="cpu", shadow_pool="gpu") == 3
    assert value("decisions", pool="none", shadow_pool="none") == 1
    assert (value("otherwise"), value("failures")) == (3, 0)
    assert value("cost", side=ROUTING) == pytest.approx(3 * 0.1 * 0.1)
    assert value("cost", side=SHADOW) == pytest.approx(3 * 0.05)
    assert value("slo", side=ROUTING, met="true") == 2
    assert value("slo", side=SHADOW, met="false") == 2
    assert shadowed.take_tally().otherwise == 0


def test_a_fault_of_the_shadow_is_counted_and_the_request_goes_its_way() -> None:
    shadowed = Shadowed(policy("overflow"), Policy("faulty", faulty), PRICES)
    assert shadowed.decide(request(), BUSY, NOW_MS).pool == "cpu"
    tally = shadowed.take_tally()
    assert (tally.failures, tally.otherwise, dict(tally.pools)) == (1, 0, {})


def test_a_choice_without_a_live_node_has_no_cost_on_either_side() -> None:
    down = fleet(node("gpu-1", live=False), node("cpu-1"), pools=DEFAULT_POOLS)
    shadowed = Shadowed(policy("overflow"), policy("gpu-only"), PRICES)
    assert shadowed.decide(request(), down, NOW_MS).pool == "cpu"
    tally = shadowed.take_tally()
    assert dict(tally.pools) == {("cpu", "gpu"): 1}
    assert tally.cost == {ROUTING: 0.0, SHADOW: 0.0}
