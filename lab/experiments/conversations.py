"""Whether conversations had better stay at their node: hits and waiting."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from lab.experiments.setting import Setting, both
from lab.simulator.measures import measure
from lab.simulator.run import Course
from lab.simulator.workload import workload
from lab.tables import Table
from streams.policy import policy


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
                         *both(measure(course, at.fleet, chosen))))  # fmt: skip
    return Table(
        "Conversations by release factor",
        "A conversation leaves its node when waiting there costs more than waiting elsewhere and "
        "the factor times the turn's run. Hits: later turns at the node of the turn before. The "
        "simulator does not make a hit faster; a real cache would. Policy: `overflow`.",
        ("load: factor", "hits", "later turns' wait p50 s", "p99 s", "metered cost", "met"),
        rows,
    )


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
