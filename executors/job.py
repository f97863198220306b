"""Work on its way through one node: who handed it in, and what was tried."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from executors.backends.base import Completion
from executors.outcome import Outcome
from executors.work import Work


class Owner(Protocol):
    """Who handed in work and takes what becomes of it."""

    def finish(self, outcome: Outcome) -> None:
        """Take the outcome of one piece of work."""

    def left_slot(self, error: BaseException | None) -> None:
        """Take note that a run has ended; with an error of the node's own it has no outcome."""


@dataclass(eq=False, slots=True)
class Job:
    """Work with its history on this node.

    Attributes:
        tries: how often it was run here, or could not be because the node was unhealthy.
        cost: of its runs here.
        give_up_at_ms: until when it is tried here; None before the first failure.
        started_s: when its present run began, on the loop's clock.
        hangs: the call that did not end when it was cancelled; its slot is free when it does.
    """

    work: Work
    owner: Owner
    tries: int = 0
    cost: float = 0.0
    give_up_at_ms: float | None = None
    started_s: float = 0.0
    hangs: asyncio.Task[Completion] | None = None
