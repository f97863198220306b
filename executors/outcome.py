"""What becomes of a pool record: the one record that a node writes for it.

Pure. A result ends the request, a refusal hands it back to the routers, a dead letter keeps what
could not be read. The caller's headers go along byte for byte. The header that says which pool
offset was finished is added with the transaction: only then the count is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from executors.backends.base import Completion
from executors.retry import End, Refuse
from executors.work import Source, Work
from schemas.dead_letter import can_be_kept, origin_said, rejection_headers
from schemas.errors import RecordRejected
from schemas.headers import (
    ERROR_CATEGORY,
    ERROR_FIRST_SEEN,
    ERROR_MESSAGE,
    FINISHED,
    FOR_GOOD,
    LEDGER,
    ORIGIN,
    Exclusion,
    Headers,
    Origin,
    Refusal,
    encode_passage,
    header_bytes,
)
from schemas.message import encode
from schemas.metadata import METADATA_BYTES_MAX
from schemas.outcomes import ErrorCategory, Status
from schemas.result import Result, ResultError, ServedBy, Timings, by_pool, slo_of
from schemas.topics import DEAD_LETTER, RECORD_BYTES_MAX, RESULTS, RETRY

RESULT_BYTES_MAX = RECORD_BYTES_MAX - METADATA_BYTES_MAX - 512
"""Key, value and headers of a result: what a topic takes, less the two headers added at commit
(a whole ledger; a topic's name of at most 249 characters with three numbers)."""

_ADDED_LATER = frozenset(
    (ORIGIN, FINISHED, LEDGER, ERROR_CATEGORY, ERROR_MESSAGE, ERROR_FIRST_SEEN)
)


class Times(NamedTuple):
    """When what happened to a request on its way to this outcome; epoch ms.

    Attributes:
        started_ms: of the last run; None if it never ran here.
        ended_ms: of the run, else of the wait.
        reason: of its routing.
        failed: the category of its error, or that it expired; None if all went well.
    """

    request_id: str
    attempt: int
    reason: str
    arrived_ms: float
    decided_ms: float
    started_ms: float | None
    ended_ms: float
    failed: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One record to write for one pool record.

    Attributes:
        source: the pool record that is finished by it.
        origin: chooses the partition where the key is null.
        topic: `results`, `retry` or `dead-letter`, without prefix.
        partition: where it must go; None: by key.
        expired: it says that the request's time has passed.
        mflop: the work that leaves the pool partition with it.
        times: for who traces; None of what was no request.
    """

    source: Source
    origin: Origin
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    expired: bool = False
    mflop: int = 0
    times: Times | None = None

    @property
    def dead(self) -> bool:
        """Return whether it is a dead letter."""
        return self.topic == DEAD_LETTER

    @property
    def size(self) -> int:
        """Return the bytes of key, value and headers."""
        headers = header_bytes(self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


class Run(NamedTuple):
    """One stay in a slot.

    Attributes:
        served_by: what ran it.
        started_ms: epoch ms when the (last) run began.
        run_ms: how long it took.
        cost: cost coefficient of the pool x seconds in slots, earlier tries on this node included.
    """

    served_by: ServedBy
    started_ms: float
    run_ms: float
    cost: float


def finished_ok(work: Work, run: Run, completion: Completion, now_ms: float) -> Outcome:
    """Return the result of a run that went well; an error result if it is too large to write."""
    outcome = _result(work, run, now_ms, Status.OK, completion=completion)
    size = outcome.size
    if size <= RESULT_BYTES_MAX:
        return outcome
    end = End(
        ErrorCategory.RESULT_TOO_LARGE,
        f"the result takes {size} bytes; at most {RESULT_BYTES_MAX} can be written: ask for less",
    )
    return ended(work, run, end, now_ms)


def ended(work: Work, run: Run | None, end: End, now_ms: float) -> Outcome:
    """Return the error result of a request that ends here; `run` is None if it never ran."""
    error = ResultError(category=end.category, message=end.message)
    return _result(work, run, now_ms, Status.ERROR, error=error)


def expired(work: Work, run: Run | None, now_ms: float) -> Outcome:
    """Return the result of a request whose time has passed, in the heap or in a slot."""
    return _result(work, run, now_ms, Status.EXPIRED)


def refused(
    work: Work,
    node: str,
    refuse: Refuse,
    now_ms: float,
    spent: tuple[str, float],
    run: Run | None = None,
) -> Outcome:
    """Return the record that hands a request back, this node excluded as it said, and why.

    `spent` is what its runs on this node have cost, by the node's pool: its result will tell it. It
    goes to the partition of `retry` with the number of its origin's partition: there the owner
    of the duplicates window that knows the request reads it.
    """
    passage = work.passage
    others = tuple(
        exclusion
        for exclusion in passage.excluded
        if exclusion.node != node
        and (exclusion.until_ms == FOR_GOOD or exclusion.until_ms > now_ms)
    )
    again = passage._replace(
        attempt=passage.attempt + 1,
        excluded=(*others, Exclusion(node, refuse.until_ms)),
        refusals=(*passage.refusals, Refusal(node, refuse.why)),
        spent=(*passage.spent, spent),
        decision=None,
    )
    return Outcome(
        work.source,
        passage.origin,
        RETRY,
        work.key,
        work.value,
        (*work.headers, *encode_passage(again)),
        passage.origin.partition,
        mflop=work.mflop,
        times=_times(work, run, now_ms, refuse.why.partition(":")[0]),
    )


def rejected(
    source: Source,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    rejection: RecordRejected,
    now_ms: float,
) -> Outcome:
    """Return the dead letter of a record: as it was received, with the error in headers.

    One that does not say which request it is gets its own place as its origin.
    """
    origin = Origin(*source)
    said = origin_said(dict(headers).get(ORIGIN), origin)
    if not can_be_kept(key, value, headers):
        key = value = None
        headers = ()
    kept = [(name, content) for name, content in headers if name not in _ADDED_LATER]
    kept.append((ORIGIN, said))
    return Outcome(
        source,
        origin,
        DEAD_LETTER,
        key,
        value,
        (*kept, *rejection_headers(rejection, now_ms)),
    )


def _result(
    work: Work,
    run: Run | None,
    now_ms: float,
    status: Status,
    *,
    completion: Completion | None = None,
    error: ResultError | None = None,
) -> Outcome:
    passage = work.passage
    total_ms = max(0.0, now_ms - passage.arrived_at_ms)
    left_heap_ms = now_ms if run is None else run.started_ms
    result = Result(
        id=work.request.id,
        status=status,
        output=completion and completion.output,
        error=error,
        served_by=None if run is None else run.served_by,
        # Clocks of several hosts meet here: a negative stretch is their difference, not a time.
        timings_ms=Timings(
            to_router=max(0.0, float(work.decision.decided_at_ms - passage.arrived_at_ms)),
            in_pool=max(0.0, left_heap_ms - work.decision.decided_at_ms),
            run=0.0 if run is None else run.run_ms,
            first_token=completion and completion.first_token_ms,
            total=total_ms,
        ),
        usage=completion and completion.usage,
        cost=0.0 if run is None else run.cost,
        earlier_cost=by_pool(passage.spent),
        slo=slo_of(work.slo_ms, total_ms),
        decision=work.decision,
        attempt=passage.attempt,
        tenant=work.request.tenant,
        model_name=work.request.model_name,
    )
    ours = encode_passage(passage._replace(excluded=(), refusals=(), spent=(), decision=None))
    return Outcome(
        work.source,
        passage.origin,
        RESULTS,
        work.key,
        encode(result),
        (*work.headers, *ours),
        expired=status is Status.EXPIRED,
        mflop=work.mflop,
        times=_times(work, run, now_ms, _failed(status, error)),
    )


def _times(work: Work, run: Run | None, now_ms: float, failed: str | None) -> Times:
    return Times(
        work.request.id,
        work.passage.attempt,
        work.decision.reason.value,
        work.passage.arrived_at_ms,
        work.decision.decided_at_ms,
        None if run is None else run.started_ms,
        now_ms if run is None else run.started_ms + run.run_ms,
        failed,
    )


def _failed(status: Status, error: ResultError | None) -> str | None:
    if error is not None:
        return error.category.value
    return None if status is Status.OK else status.value
