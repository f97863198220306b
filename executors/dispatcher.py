"""Runs work on the backend: heap to slot to outcome.

The shell around heap, slots and retry rule: it has the clock, the tasks and the metrics. It does
not know where work comes from or how outcomes are written; owners give the one, take the other.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from executors import outcome as outcomes
from executors.backends.base import Backend, BackendError, Call, Completion
from executors.heap import Heap, Urgency
from executors.latency import LatencyWindow
from executors.meter import Meter
from executors.outcome import Outcome, Run
from executors.retry import (
    ATTEMPTS_MAX,
    Failure,
    Refuse,
    RetryHere,
    after_failure,
    exhausted,
    give_up_ms,
)
from executors.service import ServiceTimes
from executors.slots import Slots
from executors.work import Work, held_until_ms
from runtime.crash import CrashPoint, reached
from schemas.outcomes import ErrorCategory, Status
from schemas.pools import Pool
from schemas.result import ServedBy
from schemas.topics import MIB

log = logging.getLogger(__name__)

EXPIRY_SCAN_S = 0.5
"""How late an expired request that waits is noticed, at most."""
UNWRITTEN_BYTES_MAX = 64 * MIB
"""Outcomes that wait for a broker; beyond it nothing starts, so memory stays bounded."""


class Owner(Protocol):
    """Who handed in work and takes what becomes of it."""

    def finish(self, outcome: Outcome) -> None:
        """Take the outcome of one piece of work."""

    def left_slot(self, error: BaseException | None) -> None:
        """Take note that a run has ended; with an error of the node's own it has no outcome."""


@dataclass(eq=False, slots=True)
class _Job:
    """Work with its history on this node."""

    work: Work
    owner: Owner
    tries: int = 0
    cost: float = 0.0
    give_up_at_ms: float | None = None


class Dispatcher:
    """Starts work in order of urgency as slots come free.

    Attributes:
        latency: of the runs that went well.
        service: of the same ones, by model and size.
    """

    def __init__(
        self,
        backend: Backend,
        latency: LatencyWindow,
        meter: Meter,
        *,
        node: str,
        pool: Pool,
        slots: int,
    ) -> None:
        self.latency = latency
        self.service = ServiceTimes()
        self._backend = backend
        self._meter = meter
        self._node = node
        self._pool = pool
        # Only a pool with an express topic is sent urgent work as a rule; in others a reserved slot
        # would stand idle.
        self._slots = Slots(slots, reserve=pool.express)
        self._heap: Heap[_Job] = Heap()
        self._running: dict[_Job, asyncio.Task[None]] = {}
        self._unwritten = 0
        self._starting = True
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0

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

    def submit(self, work: Work, owner: Owner) -> None:
        """Take work; its owner hears of it once, unless it withdraws."""
        now_ms = _now_ms()
        job = _Job(work, owner)
        if work.passage.attempt > ATTEMPTS_MAX:
            end = exhausted(None, ATTEMPTS_MAX)
            self._meter.result(work, Status.ERROR, now_ms, end.category)
            self.deliver(outcomes.ended(work, None, end, now_ms), job.owner)
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

    def _push(self, job: _Job, now_ms: float, not_before_ms: float) -> None:
        work = job.work
        self._heap.push(
            job,
            work.urgency,
            deadline_ms=work.deadline_ms,
            expires_at_ms=work.expires_at_ms,
            now_ms=now_ms,
            not_before_ms=not_before_ms,
            group=work.request.adapter,
        )

    def _fill(self) -> None:
        """Start what may start, and set the timer for what may not yet."""
        if not self._starting:
            return
        now_ms = _now_ms()
        while self._unwritten < UNWRITTEN_BYTES_MAX and self._slots.free(urgent=True):
            ordinary = self._slots.free(urgent=False)
            waiting = self._heap.pop(now_ms) if ordinary else self._heap.pop_urgent(now_ms)
            if waiting is None:
                break
            job, urgency = waiting.item, waiting.urgency
            if waiting.expires_at_ms <= now_ms:
                self._expire(job, now_ms)
                continue
            self._slots.take(urgent=urgency.urgent)
            self._meter.started(urgency, now_ms - job.work.decision.decided_at_ms)
            task = asyncio.create_task(self._run(job))
            # Not in the task itself: one that is cancelled before its first step runs nothing.
            task.add_done_callback(partial(self._ended, job, urgency))
            self._running[job] = task
        self._set_timer(now_ms)
        self._meter.load(self.busy, self.queued)

    def _set_timer(self, now_ms: float) -> None:
        if not len(self._heap):
            return
        moment_ms = self._heap.next_moment_ms
        delay_s = EXPIRY_SCAN_S
        # What is due and still held finds no slot: the end of a run will look, not the timer.
        if moment_ms is not None and moment_ms > now_ms:
            delay_s = min(delay_s, (moment_ms - now_ms) / 1000)
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            # One that is due earlier stays: under steady load it would be put off for ever.
            if self._due_s <= loop.time() + delay_s:
                return
            self._timer.cancel()
        # Not asked of the timer: what is due at once is no TimerHandle in uvloop.
        self._due_s = loop.time() + delay_s
        self._timer = loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = None
        now_ms = _now_ms()
        for waiting in self._heap.take_expired(now_ms):
            self._expire(waiting.item, now_ms)
        self._fill()

    def _expire(self, job: _Job, now_ms: float) -> None:
        self._meter.result(job.work, Status.EXPIRED, now_ms)
        self.deliver(outcomes.expired(job.work, None, now_ms), job.owner)

    async def _run(self, job: _Job) -> None:
        started_ms = _now_ms()
        started = time.perf_counter()
        job.tries += 1
        reached(CrashPoint.EXECUTOR_BEFORE_INFERENCE)
        ending = await self._infer(job.work)
        reached(CrashPoint.EXECUTOR_AFTER_INFERENCE)
        run_ms = (time.perf_counter() - started) * 1000
        spent = self._pool.cost_coefficient * run_ms / 1000
        job.cost += spent
        self._meter.ran(job.work, run_ms, spent)
        run = Run(self._served_by(job.work), started_ms, run_ms, job.cost)
        try:
            self._conclude(job, ending, run)
        except (TypeError, ValueError) as error:
            log.exception("the backend's answer to %s cannot be written", job.work.request.id)
            self._fail(job, Failure(ErrorCategory.BACKEND_ERROR, f"unwritable: {error}"), run)

    async def _infer(self, work: Work) -> Completion | Failure | None:
        """Return how a run ended; None if the request expired meanwhile."""
        request = work.request
        call = Call(
            request.id, request.model_name, request.adapter, request.payload, request.priority
        )
        left_s = (work.expires_at_ms - _now_ms()) / 1000
        reached(CrashPoint.EXECUTOR_IN_INFERENCE)
        try:
            return await asyncio.wait_for(self._backend.infer(call), left_s)
        except asyncio.TimeoutError:
            if _now_ms() >= work.expires_at_ms:
                return None
            return Failure(ErrorCategory.UNAVAILABLE, "the backend timed out")
        except BackendError as error:
            return Failure(error.category, error.message, error.retry_after_ms)
        except Exception as error:
            # Whatever an engine throws, the record must leave the partition.
            log.exception("the backend failed at %s", request.id)
            return Failure(ErrorCategory.BACKEND_ERROR, f"the engine raised {type(error).__name__}")

    def _conclude(self, job: _Job, ending: Completion | Failure | None, run: Run) -> None:
        work = job.work
        now_ms = _now_ms()
        if ending is None:
            self._meter.result(work, Status.EXPIRED, now_ms)
            self.deliver(outcomes.expired(work, run, now_ms), job.owner)
        elif isinstance(ending, Completion):
            outcome = outcomes.finished_ok(work, run, ending, now_ms)
            self.latency.add(run.run_ms)
            request = work.request
            self.service.add(request.model_name, request.estimated_gflops, run.run_ms, now_ms)
            self._meter.result(work, Status.OK, now_ms)
            self.deliver(outcome, job.owner)
        else:
            self._fail(job, ending, run)

    def _fail(self, job: _Job, failure: Failure, run: Run) -> None:
        work = job.work
        now_ms = _now_ms()
        if job.give_up_at_ms is None:
            job.give_up_at_ms = give_up_ms(now_ms, work.deadline_ms, work.expires_at_ms)
        verdict = after_failure(
            failure,
            attempt=work.passage.attempt,
            tries=job.tries,
            give_up_at_ms=job.give_up_at_ms,
            now_ms=now_ms,
            chance=random.random(),  # noqa: S311  jitter needs no secret
        )
        if isinstance(verdict, RetryHere):
            self._meter.retried()
            self._push(job, now_ms, verdict.at_ms)
        elif isinstance(verdict, Refuse):
            self._meter.refused(failure.category)
            spent = self._pool.name, job.cost
            self.deliver(outcomes.refused(work, self._node, verdict, now_ms, spent), job.owner)
            reached(CrashPoint.EXECUTOR_IN_REFUSAL)
        else:
            self._meter.result(work, Status.ERROR, now_ms, verdict.category)
            self.deliver(outcomes.ended(work, run, verdict, now_ms), job.owner)

    def _ended(self, job: _Job, urgency: Urgency, task: asyncio.Task[None]) -> None:
        del self._running[job]
        self._slots.give_back(urgent=urgency.urgent)
        job.owner.left_slot(None if task.cancelled() else task.exception())
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
