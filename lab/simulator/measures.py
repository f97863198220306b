"""What a run is judged by: cost, objectives met, latencies, what overflowed, the threshold.

Pure. The document is the command's JSON: names in it are a contract.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lab.simulator.fleet import Fleet
from lab.simulator.run import Course, End, Ended
from schemas.pools import ComputeType
from schemas.request import Priority
from streams.policy import Policy
from streams.policy.threshold import START

_RAN = End.RAN  # looked up for every request


class Percentiles(NamedTuple):
    """Nearest-rank percentiles of latency in ms; None of nothing."""

    p50: float | None
    p99: float | None


class Thresholds(NamedTuple):
    """Until the last request was decided; `changes` counts steps."""

    min: int
    max: int
    changes: int


class Measures(NamedTuple):
    """What one policy came to.

    Attributes:
        metered_cost: coefficient x slot-seconds, in gpu slot-seconds.
        slo_attainment: of requests with an objective, the share that ran within it.
        latency_ms: by priority, of requests that ran.
        overflow_share: of all requests, those that ran on another compute type than gpu.
        unserved: requests that expired or were unroutable.
    """

    metered_cost: float
    slo_attainment: float
    latency_ms: Mapping[str, Percentiles]
    overflow_share: float
    threshold: Thresholds
    unserved: int


def measure(course: Course, fleet: Fleet, policy: Policy) -> Measures:
    """Return what a course comes to."""
    ended = course.ended
    gpus = {pool.name for pool in fleet.pools if pool.compute_type is ComputeType.GPU}
    ran = [one for one in ended if one.end is _RAN]
    latencies: dict[Priority, list[float]] = {priority: [] for priority in Priority}
    for one in ran:
        latencies[one.asked.features.priority].append(one.latency_ms)
    return Measures(
        # fsum: the total does not depend on the order in which requests ended.
        metered_cost=math.fsum([one.cost for one in ended]),
        slo_attainment=_attainment(ended),
        latency_ms={name.value: _percentiles(values) for name, values in latencies.items()},
        overflow_share=_share(sum([one.pool not in gpus for one in ran]), len(ended)),
        threshold=_thresholds(course, policy),
        unserved=len(ended) - len(ran),
    )


def document_of(
    trace: str,
    requests: int,
    seed: int,
    measured: Mapping[str, Measures],
    gpu_only: Measures,
    bound_cost: float | None = None,
) -> dict[str, Any]:
    """Return the measures of all policies as a JSON document; costs are in gpu slot-seconds."""
    return {
        "trace": trace,
        "requests": requests,
        "seed": seed,
        "policies": {
            name: {
                "metered_cost": measures.metered_cost,
                "metered_cost_vs_gpu_only": of_gpu_only(measures, gpu_only),
                "slo_attainment": measures.slo_attainment,
                "latency_ms": {
                    priority: percentiles._asdict()
                    for priority, percentiles in measures.latency_ms.items()
                },
                "overflow_share": measures.overflow_share,
                "threshold": measures.threshold._asdict(),
            }
            for name, measures in measured.items()
        },
        "bound": None if bound_cost is None else {"metered_cost": bound_cost},
    }


def of_gpu_only(measures: Measures, gpu_only: Measures) -> float | None:
    """Return the metered cost as share of `gpu-only`'s; None if that ran nothing."""
    return measures.metered_cost / gpu_only.metered_cost if gpu_only.metered_cost else None


def _attainment(ended: Sequence[Ended]) -> float:
    """Return the share of objectives met; with none to miss, none is missed."""
    bound = met = 0
    for one in ended:
        slo_ms = one.asked.slo_ms
        if slo_ms is not None:
            bound += 1
            met += one.end is _RAN and one.latency_ms <= slo_ms
    return _share(met, bound) if bound else 1.0


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _percentiles(values: list[float]) -> Percentiles:
    if not values:
        return Percentiles(None, None)
    ordered = sorted(values)
    p50, p99 = (ordered[math.ceil(len(ordered) * share) - 1] for share in (0.50, 0.99))
    return Percentiles(p50, p99)


def _thresholds(course: Course, policy: Policy) -> Thresholds:
    if policy.threshold is not None:
        return Thresholds(policy.threshold, policy.threshold, 0)
    values = [START, *(second.threshold for second in course.seconds)]
    return Thresholds(min(values), max(values), sum(a != b for a, b in pairwise(values)))
