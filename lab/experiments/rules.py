"""What single rules do: the threshold, LoRA, small models, objectives under 50 ms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.experiments.setting import Setting, again, both, changed
from lab.simulator.measures import measure
from lab.simulator.run import Course
from lab.simulator.workload import SMALL, Asked
from lab.tables import Table
from schemas.request import Priority
from streams.policy import policy

_HASHES = 2**32


def thresholds(at: Setting) -> Table:
    """Compare the adaptive threshold with a fixed one as bursts grow."""
    rows = []
    for speed in (1.0, 1.5, 2.0, 2.5):
        requests = at.requests(speed)
        fixed, moving = (at.run(requests, policy(n)) for n in ("static-threshold", "overflow"))
        rows.append((f"x {speed:g}", *both(fixed), *both(moving),
                     f"{moving.threshold.min}-{moving.threshold.max}"))  # fmt: skip
    return Table(
        "Static and adaptive threshold",
        "A threshold that moves does better under bursts than one of 10 that does not.",
        ("load", "static: cost", "met", "adaptive: cost", "met", "its threshold"),
        rows,
    )


def special_rules(at: Setting) -> Table:
    """Switch rules 6 and 7 of `overflow` off, by hiding from it what they ask for."""
    rows = []
    overflow = policy("overflow")
    for speed in (1.0, 2.0):
        requests = at.requests(speed)
        for name, some in (
            ("all rules", requests),
            ("without rule 6 (LoRA)", list(changed(requests, lora=False))),
            ("without rule 7 (small models)", list(_unknown(requests))),
            ("predictive", requests),
        ):
            chosen = policy(name) if name == "predictive" else overflow
            found = at.run(some, chosen)
            rows.append((f"x {speed:g}: {name}", *both(found), f"{found.overflow_share:.1%}"))
    return Table(
        "LoRA to the NPU, small models past the GPU",
        "Adapters go to a free NPU slot whatever it costs and whatever the objective; small models "
        "leave the GPU alone. What `overflow` comes to without either rule.",
        ("", "metered cost", "objectives met", "off the GPU"),
        rows,
    )


def strict_objectives(at: Setting) -> Table:
    """Give a share of batch work an objective under 50 ms, which rule 4 sends to the gpu."""
    rows = []
    chosen = policy("predictive")
    for share in (0.0, 0.1, 0.3, 1.0):
        requests = [
            again(one, slo_ms=49.0)
            if one.features.priority is Priority.BATCH and one.features.key_hash < share * _HASHES
            else one
            for one in at.requests()
        ]
        course = at.course(requests, chosen)
        found = measure(course, at.fleet, chosen)
        others = _met_without(course, 49.0)
        rows.append((f"{share:.0%} of batch", f"{found.metered_cost:,.0f}",
                     f"{found.overflow_share:.1%}", f"{others:.2%}"))  # fmt: skip
    return Table(
        "The price of the rule under 50 ms",
        "Whoever asks for less than 50 ms gets a GPU, whether or not even that is fast enough: "
        "what it costs if batch work says so (`predictive`).",
        ("asks for 49 ms", "metered cost", "off the GPU", "objectives of the others met"),
        rows,
    )


def _met_without(course: Course, slo_ms: float) -> float:
    """Return the share of objectives met among those that are not this one."""
    others = [one for one in course.ended if one.asked.slo_ms not in (None, slo_ms)]
    return sum(one.latency_ms <= (one.asked.slo_ms or 0.0) for one in others) / len(others)


def _unknown(requests: Sequence[Asked]) -> Iterator[Asked]:
    """Yield the requests with small models that the registry does not know, so not as small."""
    for one in requests:
        yield again(one, model=f"unknown-{SMALL}") if one.features.model == SMALL else one
