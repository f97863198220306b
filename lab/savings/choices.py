"""Where a request could run at best: what the bounds and the search of fleets begin with.

Knows hardware and objectives, and neither a policy nor a solver.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from lab.simulator.fleet import Fleet, FleetPool
from lab.simulator.workload import Asked
from schemas.features import STRICT_SLO_MS
from schemas.pools import GPU_TP, ComputeType
from schemas.request import Priority


class Choice(NamedTuple):
    """A request on a pool: slot-seconds it takes there, and what they cost."""

    pool: int
    slot_s: float
    cost: float


def choices_of(fleet: Fleet, asked: Asked) -> tuple[list[Choice], bool]:
    """Return the pools where a request can be in time, and True; where it may run at all if none.

    Without an objective it is in time everywhere.
    """
    urgent = is_urgent(asked)
    choices = []
    for index, pool in enumerate(fleet.pools):
        if pool.compute_type is ComputeType.GPU if urgent else pool.name != GPU_TP:
            slot_s = fastest_ms(pool, asked) / 1000
            cost = fleet.priced[index].cost_coefficient * slot_s
            choices.append(Choice(index, slot_s, cost))
    if asked.slo_ms is None:
        return choices, True
    in_time = [one for one in choices if one.slot_s * 1000 <= asked.slo_ms]
    return in_time or choices, bool(in_time)


def open_windows(asked: Asked, width_s: float) -> dict[int, float]:
    """Return how long a request may run in each window from its arrival to its objective, s."""
    begin_s = asked.at_ms / 1000
    end_s = begin_s + (asked.slo_ms or 0.0) / 1000
    return {
        window: min(end_s, (window + 1) * width_s) - max(begin_s, window * width_s)
        for window in range(int(begin_s // width_s), math.ceil(end_s / width_s))
    }


def is_urgent(asked: Asked) -> bool:
    """Return whether rule 4 or 5 sends it to a gpu."""
    features = asked.features
    return features.priority is Priority.REALTIME or (
        features.slo_ms is not None and features.slo_ms < STRICT_SLO_MS
    )


def fastest_ms(pool: FleetPool, asked: Asked) -> float:
    """Return how long the request runs there when nothing slows it down."""
    at_once = min(pool.profile.batch_curve, key=lambda point: point[1])[0]
    return pool.profile.run_ms(asked.prompt_tokens, asked.output_tokens, at_once, asked.chance)
