"""What experiments run on, and how they say what came of it; no experiment of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, measure
from lab.simulator.run import Course, simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import Asked, asked, workload
from schemas.value import replace
from streams.policy import Policy


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


def both(found: Measures) -> tuple[str, str]:
    """Return cost and objectives met as cells."""
    return f"{found.metered_cost:,.0f}", f"{found.slo_attainment:.2%}"


def again(one: Asked, **features: object) -> Asked:
    """Return a request with other features."""
    changed = replace(one.features, **features)
    tokens = one.prompt_tokens, one.output_tokens
    return asked(one.number, one.at_ms, tokens, changed, one.chance)


def changed(requests: Sequence[Asked], **features: object) -> Iterator[Asked]:
    """Yield the requests with other features, all with the same."""
    return (again(one, **features) for one in requests)
