"""One node in virtual time: its heap, its slots, its window of run times; the executor's own.

Pure state. Who starts next, what is kept for urgent work and how long a run takes are the rules of
`executors`; this only puts them together as the executor's dispatcher does. It knows no clock.
"""

from __future__ import annotations

from executors.backends.emulated import SELF_TEST_TOKENS
from executors.backends.profile import Profile
from executors.heap import Heap, Urgency
from executors.latency import LatencyWindow
from executors.service import ServiceTimes
from executors.slots import Slots
from lab.simulator.workload import Asked
from schemas.request import Priority
from schemas.value import Value

_URGENCY = {
    Priority.REALTIME: Urgency.REALTIME,
    Priority.NORMAL: Urgency.NORMAL,
    Priority.BATCH: Urgency.BATCH,
}
_EXPRESS = Urgency.EXPRESS  # looked up for every request


class Run(Value, frozen=True):
    """A request in a slot.

    Attributes:
        turn: of its start on this node; a run that was cut short has another one when it ends.
    """

    asked: Asked
    urgency: Urgency
    started_ms: float
    run_ms: float
    turn: int


class Node:
    """A node of one pool, which owns the partition of its number.

    Attributes:
        partitions: the one that it owns.
        routed: records of its partition, as committed.
        up: it runs; False while it is away.
        slots: in use and free.
        latency: of its last runs.
        service: of the same, by model and size.
        expired: requests that ran out of time before they could start; who reads them clears it.
    """

    def __init__(
        self, pool: str, number: int, slots: int, profile: Profile, *, reserve: bool
    ) -> None:
        self.id = f"{pool}-{number}"
        self.pool = pool
        self.partitions = (number,)
        self.profile = profile
        self.routed = 0
        self.up = True
        self.latency = LatencyWindow(profile.run_ms(SELF_TEST_TOKENS, SELF_TEST_TOKENS, 1, 0.5))
        self.service = ServiceTimes()
        self._slot_count, self._reserve = slots, reserve
        self.slots = Slots(slots, reserve=reserve)
        self._heap: Heap[Asked] = Heap()
        self._running: dict[int, Run] = {}
        self._turns = 0
        self._slowness = 1.0
        self.expired: list[Asked] = []

    def take(self, asked: Asked, now_ms: float, *, express: bool, yields_ms: int) -> None:
        """Put a request into the heap."""
        urgency = _EXPRESS if express else _URGENCY[asked.features.priority]
        self._push(asked, urgency, now_ms, asked.at_ms + yields_ms if self.slots.keeps else 0.0)

    def start(self, now_ms: float) -> list[Run]:
        """Start what may start, and return it."""
        started: list[Run] = []
        slots, heap = self.slots, self._heap
        while self.up and slots.busy < slots.total and heap:
            waiting = heap.pop_for(slots, now_ms)
            if waiting is None:
                break
            asked, urgency = waiting.item, waiting.urgency
            if waiting.expires_at_ms <= now_ms:
                self.expired.append(asked)
                continue
            slots.take(urgent=urgency.urgent)
            # As the emulated backend: slowed by all that runs when it starts, itself included.
            run_ms = self._slowness * self.profile.run_ms(
                asked.prompt_tokens, asked.output_tokens, slots.busy, asked.chance
            )
            self._turns += 1
            run = Run(asked, urgency, now_ms, run_ms, self._turns)
            self._running[run.turn] = run
            started.append(run)
        return started

    def end(self, run: Run) -> bool:
        """Free the slot of a run that is over; return False if it was cut short before."""
        if self._running.pop(run.turn, None) is None:
            return False
        self.slots.give_back(urgent=run.urgency.urgent)
        self.latency.add(run.run_ms)
        wanted = run.asked.features
        ended_ms = run.started_ms + run.run_ms
        self.service.add(wanted.model, wanted.gflops, run.run_ms, ended_ms)
        return True

    @property
    def looks_at_ms(self) -> float | None:
        """Return when work may start though none has ended; None if none is to."""
        return self._heap.next_moment_ms if self.up and self.slots.last else None

    @property
    def queued(self) -> tuple[int, int, int]:
        """Return how many wait that are not urgent: normal, batch with an objective, without."""
        return self._heap.queued

    def slow_down(self, factor: float) -> None:
        """Let runs that start from now on take so many times as long."""
        self._slowness *= factor

    def go(self, now_ms: float) -> list[Run]:
        """Go away; return the runs that this cuts short, which wait for a slot again."""
        self.up = False
        cut = list(self._running.values())
        self._running.clear()
        self.slots = Slots(self._slot_count, reserve=self._reserve)
        for run in cut:
            self._push(run.asked, run.urgency, now_ms)
        return cut

    def _push(
        self, asked: Asked, urgency: Urgency, now_ms: float, yields_until_ms: float = 0.0
    ) -> None:
        self._heap.push(
            asked,
            urgency,
            deadline_ms=asked.deadline_ms,
            expires_at_ms=asked.features.expires_at_ms,
            now_ms=now_ms,
            yields_until_ms=yields_until_ms,
        )
