"""What becomes of a job once a run has ended, or could not begin: an outcome, or another try.

Counts it, and keeps the windows of run times. It knows neither slots nor the backend's calls.
"""

from __future__ import annotations

import logging
import random

from executors import outcome as outcomes
from executors.backends.base import MESSAGE_LENGTH_MAX, Completion
from executors.job import Job
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
from runtime.logs import about
from schemas.errors import Unwritable
from schemas.outcomes import ErrorCategory, Status

log = logging.getLogger(__name__)

HELD_MS = 1_000.0
"""How long work on its last attempt waits before it is looked at again, on an unhealthy node."""


class Endings:
    """Concludes jobs of one node.

    Attributes:
        service: what runs that went well took, by model and size.
    """

    def __init__(self, meter: Meter, latency: LatencyWindow, *, node: str, pool: str) -> None:
        self._latency = latency
        self.service = ServiceTimes()
        self._meter = meter
        self._node = node
        self._pool = pool

    def of_run(
        self, job: Job, ending: Completion | Failure | None, run: Run, now_ms: float
    ) -> Outcome | RetryHere:
        """Return what becomes of a job that was run; None means that its time ran out."""
        if ending is None:
            return self.expired(job, now_ms, run)
        if isinstance(ending, Failure):
            return self._failed(job, ending, run, now_ms)
        try:
            return self._well(job, ending, run, now_ms)
        except (Unwritable, ValueError) as error:
            request_id = job.work.request.id
            log.exception("the backend's answer cannot be written", extra=about(request_id))
            why = " ".join(str(error).split())[:MESSAGE_LENGTH_MAX]
            unwritable = Failure(ErrorCategory.BACKEND_ERROR, f"unwritable: {why}")
            return self._failed(job, unwritable, run, now_ms)

    def expired(self, job: Job, now_ms: float, run: Run | None = None) -> Outcome:
        """Return the result of a job whose time has passed."""
        self._meter.result(job.work, Status.EXPIRED, now_ms)
        return outcomes.expired(job.work, run, now_ms)

    def of_too_many_attempts(self, job: Job, now_ms: float) -> Outcome | None:
        """Return the end of a job that came after its last attempt; None if it did not."""
        if job.work.passage.attempt <= ATTEMPTS_MAX:
            return None
        end = exhausted(None, ATTEMPTS_MAX)
        self._meter.result(job.work, Status.ERROR, now_ms, end.category)
        return outcomes.ended(job.work, None, end, now_ms)

    def of_unhealthy(self, job: Job, why: str, now_ms: float) -> Outcome | RetryHere:
        """Return what becomes of a job that the node cannot run now.

        It is handed back as after an overload. On its last attempt it waits here instead, until
        the node is well or its time is over: an outage alone ends no request.
        """
        if job.work.passage.attempt >= ATTEMPTS_MAX:
            return RetryHere(now_ms + HELD_MS)
        job.tries += 1
        unhealthy = Failure(ErrorCategory.UNAVAILABLE, f"the node is unhealthy: {why}")
        return self._failed(job, unhealthy, None, now_ms)

    def _well(self, job: Job, completion: Completion, run: Run, now_ms: float) -> Outcome:
        outcome = outcomes.finished_ok(job.work, run, completion, now_ms)
        self._latency.add(run.run_ms)
        request = job.work.request
        self.service.add(request.model_name, request.estimated_gflops, run.run_ms, now_ms)
        self._meter.result(job.work, Status.OK, now_ms)
        return outcome

    def _failed(
        self, job: Job, failure: Failure, run: Run | None, now_ms: float
    ) -> Outcome | RetryHere:
        work = job.work
        log.debug("try %s: %s", job.tries, failure.category.value, extra=about(work.request.id))
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
            return verdict
        if isinstance(verdict, Refuse):
            self._meter.refused(failure.category)
            spent = self._pool, job.cost
            return outcomes.refused(work, self._node, verdict, now_ms, spent, run)
        self._meter.result(work, Status.ERROR, now_ms, verdict.category)
        return outcomes.ended(work, run, verdict, now_ms)
