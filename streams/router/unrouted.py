"""What is written of records that go to no pool, and the rows that tell it.

Results of requests that end here, dead letters, repeats. It decides nothing: that a record goes no
further, and why, has been found out before (`batch`).
"""

from __future__ import annotations

from runtime.kafka.partitioning import partition_of
from runtime.kafka.records import Received, Undecodable
from schemas.dead_letter import can_be_kept
from schemas.decisions import DEAD, DUPLICATE, DecisionRow
from schemas.errors import RecordRejected
from schemas.features import Features
from schemas.headers import EXCLUDED, REFUSED, SPENT, Headers, Origin, Passage
from schemas.message import encode
from schemas.outcomes import Reason
from schemas.result import DecisionHeader
from streams.policy import Decision
from streams.router.desk import Desk
from streams.router.endings import dead_letter_headers, ending
from streams.router.intake import Arrival
from streams.router.plan import REQUESTS, RETRY, Ended, Plan

_BETWEEN_US = frozenset((EXCLUDED, REFUSED, SPENT))
"""Who refused a request is between routers and nodes; its result says it in its own way."""


class Unrouted:
    """Writes results, dead letters and rows into a plan, all at one time, epoch ms."""

    def __init__(self, desk: Desk, plan: Plan, now_ms: int) -> None:
        self._desk, self._plan, self._now_ms = desk, plan, now_ms

    def repeat(self, source: int, record: Received, arrival: Arrival) -> DecisionRow:
        """Count a request that was decided before; nothing is written of it."""
        self._plan.duplicates += 1
        self._plan.headcounts[source].tally["duplicate"] += 1
        return _row(source, record, arrival, DUPLICATE)

    def end(
        self,
        source: int,
        record: Received,
        arrival: Arrival,
        decision: Decision,
        summary: DecisionHeader,
    ) -> DecisionRow:
        """Write the result of a request that no pool will see; raises as its encoder does."""
        plan, reason, topic = self._plan, decision.reason, self._desk.names.results
        passage = arrival.passage or Passage(
            arrival.identity[0], Origin.decode(arrival.origin), arrival.arrived_at_ms
        )
        result = ending(arrival, passage, decision, summary, self._now_ms)
        partition = partition_of(arrival.key, passage.origin, self._desk.widths[topic])
        passed_on = [header for header in arrival.headers() if header[0] not in _BETWEEN_US]
        plan.outputs.add(topic, partition, arrival.key, encode(result), passed_on, self._now_ms)
        plan.objectives_missed += result.slo.ms is not None
        plan.dropped_headers += arrival.dropped
        ended_as = "expired" if reason is Reason.EXPIRED else "unroutable"
        plan.headcounts[source].tally[ended_as] += 1
        plan.outcomes["none", reason.value, summary.mode] += 1
        plan.ended.append(Ended(record, arrival, reason.value, topic))
        return _row(source, record, arrival, reason.value, arrival.features)

    def bury(
        self, source: int, record: Received, arrival: Arrival | None, rejection: RecordRejected
    ) -> DecisionRow:
        """Write a dead letter: the record as received, the error in its headers."""
        plan, names = self._plan, self._desk.names
        came_from = names.requests if source == REQUESTS else names.retry
        origin = Origin(came_from, self._desk.partition, record.offset)
        key = value = None
        received: Headers = ()
        if not isinstance(record, Undecodable) and can_be_kept(
            record.key, record.value, record.headers
        ):
            key, value, received = record.key, record.value, record.headers
        headers = dead_letter_headers(
            origin,
            received,
            rejection,
            trusted=source == RETRY,
            request_id=None if arrival is None else arrival.identity[0],
            now_ms=self._now_ms,
        )
        plan.outputs.add(
            names.dead_letter,
            self._desk.partition % self._desk.widths[names.dead_letter],
            key,
            value,
            headers,
            self._now_ms,
        )
        plan.headcounts[source].tally["dead"] += 1
        category = rejection.category.value
        plan.deaths[category] += 1
        plan.ended.append(Ended(record, arrival, category, names.dead_letter))
        return _row(source, record, arrival, f"{DEAD}{category}")


def _row(
    source: int,
    record: Received,
    arrival: Arrival | None,
    outcome: str,
    features: Features | None = None,
) -> DecisionRow:
    if arrival is None:
        return DecisionRow(source, record.offset, "", 0, 0, 0, outcome)
    identity, attempt, redrive = arrival.identity
    return DecisionRow(
        source, record.offset, identity, arrival.digest, attempt, redrive, outcome,
        features=features,
    )  # fmt: skip
