"""The source article's claims, and what this policy's own assumptions cost, as experiments.

Each is a function that runs the simulator on a slice of a trace and returns a table. Numbers depend
on the trace, the fleet and the seed given, and on nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from lab.bound import lower_bound
from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, measure
from lab.simulator.run import Course, simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import SMALL, Asked, asked, workload
from schemas.features import Features
from schemas.outcomes import Reason
from schemas.pools import CPU, GPU
from schemas.request import Priority
from schemas.value import replace as with_fields
from streams.policy import Policy, policy
from streams.policy.offers import Offer, Offers

MOVED = 0.3
RATIOS, SLOWDOWNS = (5, 10, 20, 50), (5, 10, 15, 20)
WHOLE_REQUESTS = 150
"""Of the slice, for the program in whole runs, which takes seconds for so few."""
_HASHES = 2**32


class Table(NamedTuple):
    """What one experiment found: a Markdown table's cells."""

    name: str
    claim: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Setting(NamedTuple):
    """What experiments run on: requests of two traces, and a fleet."""

    plain: Sequence[Arrival]
    talk: Sequence[Arrival]
    fleet: Fleet
    seed: int
    say: Callable[[str], None]

    def requests(self, speed: float = 1.0, estimate_error: float = 0.0) -> list[Asked]:
        """Return the requests of the trace without conversations."""
        return workload(self.plain, self.seed, speed, estimate_error)

    def run(
        self, requests: Sequence[Asked], chosen: Policy, fleet: Fleet | None = None
    ) -> Measures:
        """Return what a policy comes to."""
        hardware = self.fleet if fleet is None else fleet
        return measure(self.course(requests, chosen, fleet), hardware, chosen)

    def course(
        self, requests: Sequence[Asked], chosen: Policy, fleet: Fleet | None = None
    ) -> Course:
        """Return the course that requests take."""
        self.say(chosen.name)
        return simulate(self.fleet if fleet is None else fleet, requests, chosen)


def batch_moved(at: Setting) -> Table:
    """Move 30 % of all work, batch, to the cpu: what of it is saved, by price and slowdown."""
    share = MOVED / sum(
        one.features.priority is Priority.BATCH for one in at.requests()
    ) * len(at.plain)  # fmt: skip

    def choose(features: Features, offers: Offers, _: int) -> tuple[Offer, Reason]:
        moves = features.priority is Priority.BATCH and features.key_hash < share * _HASHES
        return (offers.named(CPU) if moves else offers.named(GPU)) or offers.open[
            0
        ], Reason.BASELINE

    mover, gpu_only = Policy("30 % moved", choose), policy("gpu-only")
    requests = at.requests()
    rows: list[tuple[str, ...]] = []
    for slowdown in SLOWDOWNS:
        cells = [f"x {slowdown}"]
        for ratio in RATIOS:
            fleet = _priced(at.fleet, slowdown, ratio)
            before = at.run(requests, gpu_only, fleet).metered_cost
            saved = 1 - at.run(requests, mover, fleet).metered_cost / before
            cells.append(f"{saved:.1%} ({MOVED * (1 - slowdown / ratio):.1%})")
        rows.append(tuple(cells))
    return Table(
        "30 % of the work moved",
        "Moving 30 % of the work, all batch, saves 20 to 40 % of the cost. Measured metered saving "
        "by slowdown and price ratio, in brackets 30 % x (1 - slowdown / ratio).",
        ("slowdown", *(f"price 1/{ratio}" for ratio in RATIOS)),
        rows,
    )


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


def thresholds(at: Setting) -> Table:
    """Compare the adaptive threshold with a fixed one as bursts grow."""
    rows = []
    for speed in (1.0, 1.5, 2.0, 2.5):
        requests = at.requests(speed)
        fixed, moving = (at.run(requests, policy(n)) for n in ("static-threshold", "overflow"))
        rows.append((f"x {speed:g}", *_both(fixed), *_both(moving),
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
        for name, changed in (
            ("all rules", requests),
            ("without rule 6 (LoRA)", list(_changed(requests, lora=False))),
            ("without rule 7 (small models)", list(_unknown(requests))),
            ("predictive", requests),
        ):
            chosen = policy(name) if name == "predictive" else overflow
            found = at.run(changed, chosen)
            rows.append((f"x {speed:g}: {name}", *_both(found), f"{found.overflow_share:.1%}"))
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
    for share in (0.0, 0.1, 0.3, 1.0):
        requests = [
            _again(one, slo_ms=49.0)
            if one.features.priority is Priority.BATCH and one.features.key_hash < share * _HASHES
            else one
            for one in at.requests()
        ]
        found = at.run(requests, policy("predictive"))
        others = measure_without(at.course(requests, policy("predictive")), 49.0)
        rows.append((f"{share:.0%} of batch", f"{found.metered_cost:,.0f}",
                     f"{found.overflow_share:.1%}", f"{others:.2%}"))  # fmt: skip
    return Table(
        "The price of the rule under 50 ms",
        "Whoever asks for less than 50 ms gets a GPU, whether or not even that is fast enough: "
        "what it costs if batch work says so (`predictive`).",
        ("asks for 49 ms", "metered cost", "off the GPU", "objectives of the others met"),
        rows,
    )


def measure_without(course: Course, slo_ms: float) -> float:
    """Return the share of objectives met among those that are not this one."""
    others = [one for one in course.ended if one.asked.slo_ms not in (None, slo_ms)]
    return sum(one.latency_ms <= (one.asked.slo_ms or 0.0) for one in others) / len(others)


def stickiness(at: Setting) -> Table:
    """Keep conversations at their node never, at a price, always: hits and waiting."""
    rows = []
    for speed in (1.0, 1.3):
        requests = workload(at.talk, at.seed, speed)
        for factor in (0.0, 1.0, inf):
            chosen = replace(policy("overflow"), release_factor=factor)
            course = at.course(requests, chosen)
            hits, turns, waits = _turns(course)
            rows.append((f"x {speed:g}: {factor:g}", f"{hits / turns:.1%}",
                         f"{waits[len(waits) // 2] / 1000:.2f}",
                         f"{waits[int(len(waits) * 0.99)] / 1000:.1f}",
                         *_both(measure(course, at.fleet, chosen))))  # fmt: skip
    return Table(
        "Conversations by release factor",
        "A conversation leaves its node when waiting there costs more than waiting elsewhere and "
        "the factor times a mean run. Hits: later turns at the node of the turn before. The "
        "simulator does not make a hit faster; a real cache would. Policy: `overflow`.",
        ("load: factor", "hits", "later turns' wait p50 s", "p99 s", "metered cost", "met"),
        rows,
    )


def estimates(at: Setting) -> Table:
    """Let the work that callers estimate be off, by more and more, and then not there at all."""
    predictive = policy("predictive")
    runs = [
        (f"off by {error:.0%}", at.requests(estimate_error=error), predictive)
        for error in (0.0, 0.1, 0.3, 0.6, 1.0)
    ]
    runs.append(("none", list(_changed(at.requests(), gflops=None)), predictive))
    runs += [(f"({name})", at.requests(), policy(name)) for name in ("gpu-only", "overflow")]
    rows = [(name, *_both(at.run(requests, chosen))) for name, requests, chosen in runs]
    return Table(
        "What worse estimates cost",
        "`predictive` plans with the work that requests say they are. Standard deviation of the "
        "logarithm of what that is off by.",
        ("estimates", "metered cost", "objectives met"),
        rows,
    )


def patience(at: Setting) -> Table:
    """Let batch without an objective wait for longer and longer."""
    rows = []
    for seconds in (0, 60, 600, 3600):
        found = at.run(at.requests(), policy(f"predictive/{seconds}"))
        batch = found.latency_ms["batch"]
        rows.append((f"{seconds} s", *_both(found), f"{(batch.p50 or 0) / 1000:.0f}",
                     f"{(batch.p99 or 0) / 1000:.0f}"))  # fmt: skip
    return Table(
        "What patience saves",
        "How long batch without an objective may wait for cheap capacity.",
        ("patience", "metered cost", "objectives met", "batch p50 s", "p99 s"),
        rows,
    )


ALL: tuple[Callable[[Setting], Table], ...] = (
    batch_moved,
    greedy_and_optimum,
    thresholds,
    special_rules,
    strict_objectives,
    stickiness,
    estimates,
    patience,
)


class _Stopwatch:
    """Times a policy's decisions, one by one."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def on(self, timed: Policy) -> Policy:
        def choose(features: Features, offers: Offers, threshold: int) -> tuple[Offer, Reason]:
            began = time.perf_counter()
            chosen = timed.choose(features, offers, threshold)
            timed.pick(features, chosen[0])
            self._times.append(time.perf_counter() - began)
            return chosen

        return replace(timed, choose=choose)

    def median_us(self) -> float:
        return sorted(self._times)[len(self._times) // 2] * 1e6


def _priced(fleet: Fleet, slowdown: float, ratio: float) -> Fleet:
    """Return gpus and plenty of cpus that are so slow and so cheap."""
    gpu = next(one for one in fleet.pools if one.name == GPU)
    speed = gpu.profile
    slow = speed.model_copy(
        update={
            "prefill_tokens_per_s": (speed.prefill_tokens_per_s or 1) / slowdown,
            "decode_tokens_per_s": (speed.decode_tokens_per_s or 1) / slowdown,
        }
    )
    cpu = next(one for one in fleet.pools if one.name == CPU)
    cheap = cpu.model_copy(
        update={
            "profile": slow, "nodes": 8, "slots": 64,
            "cost_coefficient": 1 / ratio, "price_per_hour": None,
        }
    )  # fmt: skip
    plain = gpu.model_copy(update={"cost_coefficient": 1.0, "price_per_hour": None})
    return Fleet(pools=(plain, cheap), delays=fleet.delays)


def _both(found: Measures) -> tuple[str, str]:
    return f"{found.metered_cost:,.0f}", f"{found.slo_attainment:.2%}"


def _again(one: Asked, **features: object) -> Asked:
    """Return a request with other features."""
    changed = with_fields(one.features, **features)
    tokens = one.prompt_tokens, one.output_tokens
    return asked(one.number, one.at_ms, tokens, changed, one.chance)


def _changed(requests: Sequence[Asked], **features: object) -> Iterator[Asked]:
    return (_again(one, **features) for one in requests)


def _unknown(requests: Sequence[Asked]) -> Iterator[Asked]:
    """Yield the requests with small models that the registry does not know, so not as small."""
    for one in requests:
        yield _again(one, model=f"unknown-{SMALL}") if one.features.model == SMALL else one


def _turns(course: Course) -> tuple[int, int, list[float]]:
    """Return later turns at the node of the turn before, all later ones, and their waits."""
    last: dict[str, str] = {}
    hits, waits = 0, []
    for one in sorted(course.ended, key=lambda ended: ended.asked.number):
        conversation = one.asked.features.conversation or ""
        if conversation in last:
            hits += last[conversation] == one.node
            waits.append(one.started_ms - one.asked.at_ms)
        last[conversation] = one.node
    return hits, len(waits), sorted(waits)
