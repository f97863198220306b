"""What one record of a pool topic becomes: work to run, or a dead letter with its category.

Pure. It reads bytes and headers once, so that nothing behind it parses again; it does not know who
runs the work nor how its outcome is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from executors.heap import Urgency
from schemas.errors import FormatError, RecordRejected
from schemas.features import objective_ms
from schemas.headers import (
    FOR_GOOD,
    Headers,
    Passage,
    split_headers,
)
from schemas.message import decode
from schemas.outcomes import DeadLetterCategory
from schemas.parsing import parse_request, read_passage
from schemas.request import Priority, Request, check_size, expiry_ms
from schemas.result import DecisionHeader, DecisionSummary
from schemas.work import mflop_of


class Source(NamedTuple):
    """Where a record stands in a pool's topics."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Work:
    """One readable record of a pool topic.

    Attributes:
        key, value: the record's bytes, which a refusal passes on unchanged.
        headers: the caller's own, in order.
        passage: what our headers say.
        mflop: its work as its router counted it; 0 where that router counted none.
        yields_ms: for so long from its arrival it leaves a node's last free slot to others.
        expires_at_ms: epoch ms after which running it is worth nothing.
        deadline_ms: epoch ms by which its objective is met, or it expires without one.
        slo_ms: the objective, realtime's own where the request brings none; None without.
    """

    source: Source
    key: bytes | None
    value: bytes
    headers: Headers
    request: Request
    passage: Passage
    decision: DecisionSummary
    mflop: int
    urgency: Urgency
    slo_ms: float | None
    deadline_ms: float
    yields_ms: int
    expires_at_ms: int


def read_work(
    source: Source, key: bytes | None, value: bytes | None, headers: Headers, *, express: bool
) -> Work:
    """Return the work that a pool record is; raise RecordRejected if it is none.

    Args:
        source: where the record stands.
        key, value, headers: the record.
        express: whether it came by the pool's express topic.
    """
    theirs, ours = split_headers(headers)
    check_size(key, value, theirs)
    passage = read_passage(ours)
    request = parse_request(value)
    try:
        decision = decode(DecisionHeader, passage.decision or b"")
    except FormatError as error:
        raise RecordRejected(
            DeadLetterCategory.INVALID_FIELD, f"not as a router writes it: {error}"
        ) from error
    slo_ms = objective_ms(request.latency_slo_ms, request.priority)
    expires_at_ms = expiry_ms(request, passage.arrived_at_ms)
    return Work(
        source=source,
        key=key,
        value=value or b"",
        headers=theirs,
        request=request,
        passage=passage,
        decision=decision,
        # An older router counted no work: finishing what was never counted would go below zero.
        mflop=mflop_of(request.estimated_gflops) if decision.counts_work else 0,
        urgency=Urgency.EXPRESS if express else _URGENCY[request.priority],
        slo_ms=slo_ms,
        deadline_ms=expires_at_ms if slo_ms is None else passage.arrived_at_ms + slo_ms,
        yields_ms=decision.yields_ms,
        expires_at_ms=expires_at_ms,
    )


def held_until_ms(work: Work, node: str) -> int:
    """Return until when this node, which refused the work before, lets it wait; 0 if it never did.

    A router that chose the node all the same knew none better; a refusal for good is then said
    again by the backend itself.
    """
    lapses = (until for name, until in work.passage.excluded if name == node and until != FOR_GOOD)
    return max(lapses, default=0)


def yields_until_ms(work: Work, now_ms: float) -> float:
    """Return until when it leaves the last slot to others; an arrival to come counts as now."""
    return min(work.passage.arrived_at_ms, now_ms) + work.yields_ms


_URGENCY = {
    Priority.REALTIME: Urgency.REALTIME,
    Priority.NORMAL: Urgency.NORMAL,
    Priority.BATCH: Urgency.BATCH,
}
