"""What the router itself writes about requests that go no further: results and dead letters.

Pure. An executor writes results too; only those of routed requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas import headers as ours
from schemas.dead_letter import origin_said, rejection_headers
from schemas.errors import RecordRejected
from schemas.headers import Headers, Origin, Passage
from schemas.outcomes import DeadLetterCategory, ErrorCategory, Reason, Status
from schemas.parsing import parse_request
from schemas.result import DecisionSummary, Result, ResultError, Timings, by_pool, slo_of
from streams.policy import Decision
from streams.router.intake import Arrival

MESSAGE_MAX = 1000
"""Characters: a line for each of a handful of pools, and for each node that refused."""


def ending(
    arrival: Arrival, passage: Passage, decision: Decision, summary: DecisionSummary, now_ms: int
) -> Result:
    """Return the result of a request that is expired or that no pool may run."""
    waited_ms = float(max(0, now_ms - passage.arrived_at_ms))
    error = None
    if decision.reason is not Reason.EXPIRED:
        words = [f"{pool}: {why}" for pool, why in decision.excluded.items()]
        message = "; ".join([*words, *_nodes_words(passage)])
        error = ResultError(category=ErrorCategory.UNROUTABLE, message=message[:MESSAGE_MAX])
    return Result(
        id=arrival.identity[0],
        status=Status.EXPIRED if error is None else Status.ERROR,
        error=error,
        timings_ms=Timings(to_router=waited_ms, total=waited_ms),
        earlier_cost=by_pool(passage.spent),
        slo=slo_of(arrival.features.slo_ms, waited_ms),
        decision=summary,
        attempt=arrival.features.attempt,
        tenant=parse_request(arrival.value).tenant,
        model_name=arrival.features.model,
    )


def _nodes_words(passage: Passage) -> Iterator[str]:
    """Yield what the nodes said that refused the request for good; those that agree, together."""
    for_good = {node for node, until_ms in passage.excluded if until_ms == ours.FOR_GOOD}
    said: dict[str, list[str]] = {}
    for node, why in passage.refusals:
        if node in for_good:
            said.setdefault(why, []).append(node)
    for why, nodes in said.items():
        yield f"{', '.join(nodes)} said {why}"


def fault(error: Exception) -> RecordRejected:
    """Return why a record is buried that a fault of ours hit: it must not hold up its partition."""
    message = f"the router failed on it: {type(error).__name__}; please report this"
    return RecordRejected(DeadLetterCategory.INTERNAL, message)


def dead_letter_headers(
    origin: Origin,
    received: Headers,
    rejection: RecordRejected,
    *,
    trusted: bool,
    request_id: str | None,
    now_ms: int,
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a dead letter: the caller's, where it came from, what was wrong.

    Args:
        origin: of the rejected record.
        trusted: the record is one of ours (`retry`), so the origin it carries is the request's.
    """
    headers, carried = ours.split_headers(received)
    said = carried.get(ours.ORIGIN) if trusted else None
    headers.append((ours.ORIGIN, origin_said(said, origin)))
    if trusted and ours.REDRIVE in carried:
        headers.append((ours.REDRIVE, carried[ours.REDRIVE]))
    if request_id is not None:
        headers.append((ours.REQUEST_ID, request_id.encode()))
    headers.append((ours.VERSION, b"%d" % ours.HEADERS_VERSION))
    return headers + rejection_headers(rejection, now_ms)
