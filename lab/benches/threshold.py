"""How the threshold's controllers answer a step of the load: 0.2x to 3x capacity and back.

In virtual time, on the queue model: some seconds of work, the same every time. Capacity is that of
the gpu pool. Two fleets: one whose cpus take what is too much for the gpus, and one that they do
not suffice for, with small models that belong on cpus anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from lab.benches.queue_model import NodeKind, Second, Traffic, run
from schemas.pools import CPU, GPU, NPU
from streams.policy.controllers import CONTROLLERS

GPUS = NodeKind(GPU, nodes=1, slots=4, run_ms=50.0)
CAPACITY = GPUS.nodes * GPUS.slots / GPUS.run_ms * 1000
"""Requests a second."""
NPUS = NodeKind(NPU, nodes=1, slots=8, run_ms=120.0)
LOW, HIGH = 0.2, 3.0
STEPS_S = (60, 120, 420)
"""Low until the first, high until the second, low until the last: time to drain and come back."""
REST_S = 30
"""What has not moved in the last half minute of a phase has settled."""
NEAR = 1
"""This close to where it ends counts as settled there: a record."""
SEED = 1


class Fleet(NamedTuple):
    """What the load meets, and which share of it is of small models."""

    name: str
    kinds: tuple[NodeKind, ...]
    small: float


FLEETS = (
    Fleet("cpus with room", (GPUS, NodeKind(CPU, 4, 32, 800.0), NPUS), small=0.0),
    Fleet("small models on few cpus", (GPUS, NodeKind(CPU, 1, 4, 800.0)), small=0.4),
)


@dataclass(frozen=True)
class Answer:
    """How one controller answers one fleet's load.

    Attributes:
        settled_s: by phase, seconds after the step until it rests; None: it does not.
        ends_at: by phase, the threshold at its end.
        overshoot: records by which it went beyond both ends of a phase, at most.
        changes_per_minute, turns: of the whole course.
        course: what control saw, second by second.
    """

    fleet: str
    controller: str
    settled_s: tuple[float | None, ...]
    ends_at: tuple[int, ...]
    overshoot: int
    changes_per_minute: float
    turns: int
    course: tuple[Second, ...]


def bench_threshold(seed: int = SEED) -> list[Answer]:
    """Return the answers of all controllers for all fleets."""
    return [answer(fleet, name, seed) for fleet in FLEETS for name in CONTROLLERS]


def document_of(answers: Sequence[Answer]) -> list[dict[str, Any]]:
    """Return the answers as a JSON document."""
    return [asdict(answer) for answer in answers]


def answer(fleet: Fleet, controller: str, seed: int = SEED) -> Answer:
    """Return how a controller answers the step of the load."""
    up_ms, down_ms = STEPS_S[0] * 1000, STEPS_S[1] * 1000

    def rate(now_ms: float) -> float:
        return CAPACITY * (HIGH if up_ms <= now_ms < down_ms else LOW)

    course = run(
        fleet.kinds, Traffic(rate, fleet.small), CONTROLLERS[controller], STEPS_S[-1], seed
    )
    thresholds = [second.threshold for second in course]
    phases = [thresholds[a:b] for a, b in itertools.pairwise((0, *STEPS_S))]
    moves = [b - a for a, b in itertools.pairwise(thresholds) if a != b]
    return Answer(
        fleet=fleet.name,
        controller=controller,
        settled_s=tuple(_settled_s(phase) for phase in phases),
        ends_at=tuple(phase[-1] for phase in phases),
        overshoot=max(_overshoot(phase) for phase in phases),
        changes_per_minute=len(moves) / STEPS_S[-1] * 60,
        turns=sum(a * b < 0 for a, b in itertools.pairwise(moves)),
        course=tuple(course),
    )


def _settled_s(phase: Sequence[int]) -> float | None:
    away = [at for at, value in enumerate(phase) if abs(value - phase[-1]) > NEAR]
    settled = away[-1] + 1 if away else 0
    return float(settled) if settled <= len(phase) - REST_S else None


def _overshoot(phase: Sequence[int]) -> int:
    first, last = phase[0], phase[-1]
    return max(max(phase) - max(first, last), min(first, last) - min(phase))
