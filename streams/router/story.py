"""What a router tells of a request that it has ended: one span, and where its time went.

Pure. Whatever is routed is told by the node that ends it (`executors.story`).
"""

from __future__ import annotations

from runtime.kafka.records import Undecodable
from runtime.tracing import ATTEMPT, Story, Stretch
from streams.router.plan import Ended


def story_of(ended: Ended, decided_ms: float, committed_ms: float) -> Story | None:
    """Return the story of what ended here, committed; None if it has no headers to be read."""
    record, arrival = ended.record, ended.arrival
    if isinstance(record, Undecodable):
        return None
    headers, begin_ms, attempt = record.headers, record.timestamp, 1
    attributes: dict[str, str | int | float] = {
        "overspill.reason": ended.why,
        "overspill.written_to": ended.topic,
    }
    if arrival is not None:
        headers, begin_ms = arrival.theirs, arrival.arrived_at_ms
        attributes["overspill.request_id"], attempt, _ = arrival.identity
    attributes["overspill.attempt"] = attempt
    decided_ms = max(begin_ms, decided_ms)  # clocks of several hosts meet here
    route = Stretch("route", begin_ms, decided_ms)
    result = Stretch("result", decided_ms, max(decided_ms, committed_ms))
    whole = Stretch(ATTEMPT, begin_ms, result.end_ms)
    return Story(headers, whole, (route, result), attributes, ended.why)
