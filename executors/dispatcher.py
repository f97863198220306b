"""Runs work on the backend: heap to slot to outcome.

The shell around heap and slots: it has the clock and the tasks. It does not know where work comes
from or how outcomes are written (owners give the one, take the other), nor what becomes of a run.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from executors.backends.base import Backend, Call
from executors.breaker import Breaker
from executors.endings import Endings
from executors.engine_calls import EngineCalls
from executors.heap import Heap, Urgency
from executors.job import Job, Owner
from executors.latency import LatencyWindow
from executors.meter import Meter
from executors.outcome import Outcome, Run
from executors.retry import RetryHere
from executors.service import ServiceTimes
from executors.slots import Slots
from executors.work import Work, held_until_ms, yields_until_ms
from runtime.crash import CrashPoint, reached
from schemas.pools import Pool
from schemas.result import ServedBy
from schemas.topics import MIB, RETRY

EXPIRY_SCAN_S = 0.5
"""How late an expired request that waits is noticed, at most."""
UNWRITTEN_BYTES_MAX = 64 * MIB
"""Outcomes that wait for a broker; beyond it nothing starts, so memory stays bounded."""


class Dispatcher:
    """Starts work in order of urgency as slots come free."""

    def __init__(
        self,
        backend: Backend,
        latency: LatencyWindow,
        breaker: Breaker,
        meter: Meter,
        *,
        node: str,
        pool: Pool,
        slots: int,
    ) -> None:
        self._backend = backend
        self._calls = EngineCalls(backend)
        self._breaker = breaker
        self._endings = Endings(meter, latency, node=node, pool=pool.name)
        self._meter = meter
        self._node = node
        self._pool = pool
        # Only a pool with an express topic is sent urgent work as a rule; in others a reserved slot
        # would stand idle.
        self._slots = Slots(slots, reserve=pool.express)
        self._heap: Heap[Job] = Heap()
        self._running: dict[Job, asyncio.Task[None]] = {}
        self._unwritten = 0
        self._starting = True
        self._unhealthy: str | None = None
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0
        self._next_scan_s = 0.0

    @property
    def busy(self) -> int:
        """Return how many slots are in use."""
        return self._slots.busy

    @property
    def queued(self) -> int:
        """Return how many pieces of work wait."""
        return len(self._heap)

    @property
    def waiting(self) -> tuple[int, int, int]:
        """Return how many wait that are not urgent: normal, batch with an objective, without."""
        return self._heap.queued

    @property
    def hanging(self) -> int:
        """Return how many slots are taken by calls that did not end when they were cancelled."""
        return self._calls.hanging

    @property
    def longest_run_s(self) -> float:
        """Return how long the oldest run has taken so far; 0 if nothing runs."""
        now_s = asyncio.get_running_loop().time()
        return max((now_s - job.started_s for job in self._running), default=0.0)

    @property
    def service(self) -> ServiceTimes:
        """Return what runs that went well took, by model and size."""
        return self._endings.service

    def submit(self, work: Work, owner: Owner) -> None:
        """Take work; its owner hears of it once, unless it withdraws."""
        now_ms = _now_ms()
        job = Job(work, owner)
        too_late = self._endings.of_too_many_attempts(job, now_ms)
        if too_late is not None:
            self.deliver(too_late, owner)
            return
        self._push(job, now_ms, held_until_ms(work, self._node))
        self._fill()

    def deliver(self, outcome: Outcome, owner: Owner) -> None:
        """Give an outcome to its owner, and count its bytes until they are `written`."""
        self._unwritten += outcome.size
        owner.finish(outcome)

    async def withdraw(self, owner: Owner) -> None:
        """Forget all work of an owner; what runs is cancelled and has ended on return."""
        self._heap.remove(lambda job: job.owner is owner)
        tasks = [task for job, task in self._running.items() if job.owner is owner]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def running(self, owner: Owner) -> bool:
        """Return whether work of this owner is in a slot."""
        return any(job.owner is owner for job in self._running)

    def written(self, size: int) -> None:
        """Take note that outcomes of so many bytes need no memory any more."""
        self._unwritten -= size
        self._fill()

    def stop_starting(self) -> None:
        """Start nothing more; what runs goes on."""
        self._starting = False
        if self._timer is not None:
            self._timer.cancel()

    def suspend(self, why: str) -> None:
        """Start nothing and hand back what waits, until `resume`; what runs goes on."""
        self._unhealthy = why
        self._fill()

    def resume(self) -> None:
        """Start work again."""
        self._unhealthy = None
        self._fill()

    def _push(self, job: Job, now_ms: float, not_before_ms: float) -> None:
        work = job.work
        self._heap.push(
            job,
            work.urgency,
            deadline_ms=work.deadline_ms,
            expires_at_ms=work.expires_at_ms,
            now_ms=now_ms,
            not_before_ms=not_before_ms,
            yields_until_ms=yields_until_ms(work, now_ms) if self._slots.keeps else 0.0,
            group=work.request.adapter,
        )

    def _fill(self) -> None:
        """Start what may start, and set the timer for what may not yet."""
        if not self._starting:
            return
        now_ms = _now_ms()
        if self._unhealthy is not None:
            self._hand_back(self._unhealthy, now_ms)  # nothing is left to start
        while self._may_start:
            waiting = self._heap.pop_for(self._slots, now_ms)
            if waiting is None:
                break
            job, urgency = waiting.item, waiting.urgency
            if waiting.expires_at_ms <= now_ms:
                self._expire(job, now_ms)
                continue
            self._slots.take(urgent=urgency.urgent)
            self._meter.started(urgency, now_ms - job.work.decision.decided_at_ms)
            job.started_s, job.hangs = asyncio.get_running_loop().time(), None
            task = asyncio.create_task(self._run(job))
            # Not in the task itself: one that is cancelled before its first step runs nothing.
            task.add_done_callback(partial(self._ended, job, urgency))
            self._running[job] = task
        self._set_timer(now_ms)
        self._meter.load(self.busy, self.queued, self._heap.yielding)

    @property
    def _may_start(self) -> bool:
        return self._unwritten < UNWRITTEN_BYTES_MAX and self._slots.free(urgent=True)

    def _hand_back(self, why: str, now_ms: float) -> None:
        while self._unwritten < UNWRITTEN_BYTES_MAX:
            waiting = self._heap.pop(now_ms)
            if waiting is None:
                return
            job = waiting.item
            if waiting.expires_at_ms <= now_ms:
                self._expire(job, now_ms)
            else:
                self._go_on(job, self._endings.of_unhealthy(job, why, now_ms), now_ms)

    def _set_timer(self, now_ms: float) -> None:
        if not len(self._heap):
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        due_s = self._next_scan_s if self._next_scan_s > now_s else now_s + EXPIRY_SCAN_S
        moment_ms = self._heap.next_moment_ms
        # What is due finds no slot where none is free: the end of a run will look, not the timer.
        if moment_ms is not None and moment_ms > now_ms and self._slots.free(urgent=True):
            due_s = min(due_s, now_s + (moment_ms - now_ms) / 1000)
        if self._timer is not None:
            # One that is due earlier stays: under steady load it would be put off for ever.
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        # Not asked of the timer: what is due at once is no TimerHandle in uvloop.
        self._due_s = due_s
        self._timer = loop.call_at(due_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now_ms = _now_ms()
        # A scan goes through all that waits; moments at which work no longer yields may be many.
        if self._due_s >= self._next_scan_s:
            self._next_scan_s = asyncio.get_running_loop().time() + EXPIRY_SCAN_S
            for waiting in self._heap.take_expired(now_ms):
                self._expire(waiting.item, now_ms)
        self._fill()

    def _expire(self, job: Job, now_ms: float) -> None:
        self.deliver(self._endings.expired(job, now_ms), job.owner)

    def _go_on(self, job: Job, then: Outcome | RetryHere, now_ms: float) -> None:
        if isinstance(then, RetryHere):
            self._push(job, now_ms, then.at_ms)
            return
        self.deliver(then, job.owner)
        if then.topic == RETRY:
            reached(CrashPoint.EXECUTOR_IN_REFUSAL)

    async def _run(self, job: Job) -> None:
        started_ms = _now_ms()
        started = time.perf_counter()
        job.tries += 1
        reached(CrashPoint.EXECUTOR_BEFORE_INFERENCE)
        request = job.work.request
        call = Call(
            request.id, request.model_name, request.adapter, request.payload, request.priority
        )
        left_s = (job.work.expires_at_ms - started_ms) / 1000
        reached(CrashPoint.EXECUTOR_IN_INFERENCE)
        ending = await self._calls.run(call, left_s, partial(setattr, job, "hangs"))
        reached(CrashPoint.EXECUTOR_AFTER_INFERENCE)
        self._breaker.ran(ending, asyncio.get_running_loop().time())
        run_ms = (time.perf_counter() - started) * 1000
        spent = self._pool.cost_coefficient * run_ms / 1000
        job.cost += spent
        self._meter.ran(job.work, run_ms, spent)
        run = Run(self._served_by(job.work), started_ms, run_ms, job.cost)
        now_ms = _now_ms()
        self._go_on(job, self._endings.of_run(job, ending, run, now_ms), now_ms)

    def _ended(self, job: Job, urgency: Urgency, task: asyncio.Task[None]) -> None:
        del self._running[job]
        job.owner.left_slot(None if task.cancelled() else task.exception())
        if job.hangs is not None:
            job.hangs.add_done_callback(partial(self._free_slot, urgency))
        else:
            self._free_slot(urgency)

    def _free_slot(self, urgency: Urgency, _: Any = None) -> None:
        self._slots.give_back(urgent=urgency.urgent)
        self._fill()

    def _served_by(self, work: Work) -> ServedBy:
        info = self._backend.info
        return ServedBy(
            node=self._node,
            pool=self._pool.name,
            compute_type=self._pool.compute_type,
            backend=info.kind,
            engine=info.engine,
            device=info.device,
            model=work.request.model_name,
            adapter=work.request.adapter,
            emulated=info.emulated,
        )


def _now_ms() -> float:
    return time.time() * 1000
