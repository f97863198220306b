"""What a node tells of a record that it has finished: one span, and where its time went.

Pure. The record carries when the request arrived and when it was decided, so the node that ends an
attempt can tell all of it; each attempt at a request is a span of its own in the caller's trace.
"""

from __future__ import annotations

from executors.outcome import Outcome
from runtime.tracing import ATTEMPT, Story, Stretch


def story_of(outcome: Outcome, node: str, pool: str, committed_ms: float) -> Story | None:
    """Return the story of an outcome that was committed; None if it was no request."""
    times = outcome.times
    if times is None:
        return None
    decided_ms = max(times.arrived_ms, times.decided_ms)  # clocks of several hosts meet here
    parts = [Stretch("route", times.arrived_ms, decided_ms)]
    if times.started_ms is None:
        parts.append(Stretch("wait", decided_ms, times.ended_ms))
    else:
        parts.append(Stretch("wait", decided_ms, times.started_ms))
        parts.append(Stretch("run", times.started_ms, times.ended_ms))
    parts.append(Stretch("result", times.ended_ms, committed_ms))
    attributes: dict[str, str | int | float] = {
        "overspill.request_id": times.request_id,
        "overspill.pool": pool,
        "overspill.node": node,
        "overspill.reason": times.reason,
        "overspill.attempt": times.attempt,
        "overspill.written_to": outcome.topic,
    }
    begin_ms = parts[0].begin_ms
    return Story(
        outcome.headers,
        Stretch(ATTEMPT, begin_ms, committed_ms),
        tuple(parts),
        attributes,
        times.failed,
    )
