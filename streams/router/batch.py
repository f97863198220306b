"""What becomes of a batch of records: routed, ended here, dead, or seen before.

Decides record by record in the order of arrival, and writes all of it into one `Plan`: the outputs
of one transaction and what will hold once it is committed. Nothing outside the plan changes but
window, bindings and view, which the lane takes back if the commit did not happen. Pure but for
encoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runtime.kafka.partitioning import partition_of
from runtime.kafka.records import Undecodable
from schemas.decisions import DecisionRow, encode_row
from schemas.errors import RecordRejected
from schemas.headers import Headers, Origin, encode_passage
from schemas.message import encode
from schemas.metadata import RouterCounts
from schemas.outcomes import DeadLetterCategory, Reason
from schemas.pools import Pool
from schemas.result import DecisionSummary
from schemas.topics import TopicNames
from streams.policy import Decision, Policy, View
from streams.router.endings import dead_letter_headers, ending
from streams.router.intake import Arrival, take_request, take_retry
from streams.router.plan import REQUESTS, RETRY, Headcount, Plan, Taken
from streams.router.window import Bindings, DuplicateWindow

RECORDS_MAX = 500
"""A transaction costs about 10 ms whatever it holds; beyond this its own latency grows instead."""
OUTPUT_BYTES_MAX = 4 * 1024 * 1024
"""Holds several of the largest requests, and ends well within the 50 ms a transaction may take."""
ROW_BYTES_MAX = 512 * 1024
"""Of decision rows: the snapshot comes on top, and 1 MiB is the record's limit."""


class _Alike(NamedTuple):
    """What requests decided alike share: most of a batch, so it is made once."""

    summary: bytes
    labels: tuple[str, str, str]


@dataclass(frozen=True)
class Desk:
    """What a lane decides with.

    Attributes:
        partition: number of the lane.
        widths: partitions by full topic name, of `results` and `dead-letter` at least.
        pool_topics: by pool and express: the topic's full name, and its name in metadata.
    """

    partition: int
    names: TopicNames
    policy: Policy
    view: View
    window: DuplicateWindow
    bindings: Bindings
    widths: Mapping[str, int]
    pool_topics: Mapping[tuple[str, bool], tuple[str, str]]


def pool_topic_names(
    names: TopicNames, pools: tuple[Pool, ...]
) -> dict[tuple[str, bool], tuple[str, str]]:
    """Return what `Desk.pool_topics` holds: looked up a thousand times for each time it is made."""
    bare = TopicNames("")
    found = {(pool.name, False): (names.pool(pool.name), bare.pool(pool.name)) for pool in pools}
    for pool in pools:
        if pool.express:
            found[pool.name, True] = names.express(pool.name), bare.express(pool.name)
    return found


def plan_batch(
    desk: Desk, queue: deque[Taken], before: tuple[RouterCounts, RouterCounts], now_ms: int
) -> Plan:
    """Take from the queue what fits one transaction; return its plan, given the counts before."""
    batch = _Batch(desk, Plan((Headcount(before[REQUESTS]), Headcount(before[RETRY]))), now_ms)
    desk.view.bindings = desk.bindings.by_conversation
    while queue and not batch.full:
        batch.add(queue.popleft())
    return batch.plan


class _Batch:
    """One plan in the making."""

    def __init__(self, desk: Desk, plan: Plan, now_ms: int) -> None:
        self.plan = plan
        self._desk = desk
        self._now_ms = now_ms
        self._mode = desk.view.mode.value
        self._row_bytes = 0
        self._alike: dict[tuple[Reason, str | None, str | None], _Alike] = {}

    @property
    def full(self) -> bool:
        """Return whether the transaction should take no more."""
        return (
            len(self.plan.rows) >= RECORDS_MAX
            or self.plan.outputs.size >= OUTPUT_BYTES_MAX
            or self._row_bytes >= ROW_BYTES_MAX
        )

    def add(self, taken: Taken) -> None:
        """Write what becomes of one record into the plan."""
        self.plan.count(taken)
        arrival: Arrival | None = None
        try:
            arrival = self._take(taken)
            row = self._settle(taken, arrival)
        except RecordRejected as rejection:
            row = self._bury(taken, arrival, rejection)
        except Exception as error:  # noqa: BLE001  a fault of ours must not hold up the partition
            fault = f"the router failed on it: {type(error).__name__}; please report this"
            row = self._bury(taken, arrival, RecordRejected(DeadLetterCategory.INTERNAL, fault))
        encoded = encode_row(row)
        self.plan.rows.append(encoded)
        self._row_bytes += len(encoded)

    def _take(self, taken: Taken) -> Arrival:
        source, record, _ = taken
        if isinstance(record, Undecodable):
            raise RecordRejected(DeadLetterCategory.UNDECODABLE, record.why)
        if source == RETRY:
            return take_retry(record.key, record.value, record.headers)
        origin = Origin(self._desk.names.requests, self._desk.partition, record.offset)
        return take_request(origin, record.timestamp, record.key, record.value, record.headers)

    def _settle(self, taken: Taken, arrival: Arrival) -> DecisionRow:
        """Decide one request and write what follows."""
        desk, plan = self._desk, self.plan
        headcount = plan.headcounts[taken.source]
        plan.dropped_headers += arrival.dropped
        seen = desk.window.digest_of(arrival.identity, self._now_ms)
        if seen is not None:
            if seen != arrival.digest:
                raise RecordRejected(
                    DeadLetterCategory.CONFLICT,
                    "the id was sent before with other bytes; give each request its own id",
                )
            plan.duplicates += 1
            headcount.tally["duplicate"] += 1
            return _row(taken, arrival, "duplicate")
        decision = desk.policy.decide(arrival.features, desk.view, self._now_ms)
        made = decision.reason, decision.pool, decision.node
        alike = self._alike.get(made)
        if alike is None:
            alike = self._alike[made] = self._describe(decision)
        if decision.pool is not None:
            self._route(headcount, arrival, decision, decision.pool, alike.summary)
        else:
            self._end(arrival, decision)
            expired = decision.reason is Reason.EXPIRED
            headcount.tally["expired" if expired else "unroutable"] += 1
        desk.window.add(arrival.identity, arrival.digest, self._now_ms)
        plan.remembered += 1
        plan.outcomes[alike.labels] += 1
        return _row(taken, arrival, alike.labels[1], decision)

    def _route(
        self,
        headcount: Headcount,
        arrival: Arrival,
        decision: Decision,
        pool: str,
        summary: bytes,
    ) -> None:
        topic, counted_as = self._desk.pool_topics[pool, decision.express]
        headers = arrival.headers + encode_passage(arrival.passage, summary)
        self._desk.view.add(decision)
        self.plan.outputs.add(
            topic, decision.partition, arrival.key, arrival.value, headers, self._now_ms
        )
        self.plan.routed[pool, decision.partition] += 1
        headcount.add_routed(counted_as, decision.partition)
        conversation = arrival.features.conversation
        if conversation is not None and decision.node is not None:
            before = self._desk.bindings.bind(conversation, (pool, decision.node))
            self.plan.bound.append((conversation, before))

    def _end(self, arrival: Arrival, decision: Decision) -> None:
        """Write the result of a request that no pool will see."""
        topic = self._desk.names.results
        result = ending(arrival, decision, self._summary(decision), self._now_ms)
        partition = partition_of(arrival.key, arrival.passage.origin, self._desk.widths[topic])
        headers = arrival.headers + encode_passage(arrival.passage)
        self.plan.outputs.add(topic, partition, arrival.key, encode(result), headers, self._now_ms)

    def _bury(
        self, taken: Taken, arrival: Arrival | None, rejection: RecordRejected
    ) -> DecisionRow:
        """Write a dead letter: the record as received, the error in its headers."""
        source, record, _ = taken
        names = self._desk.names
        came_from = names.requests if source == REQUESTS else names.retry
        origin = Origin(came_from, self._desk.partition, record.offset)
        key = value = None
        received: Headers = ()
        if not isinstance(record, Undecodable):
            key, value, received = record.key, record.value, record.headers
        headers = dead_letter_headers(
            origin,
            received,
            rejection,
            trusted=source == RETRY,
            request_id=None if arrival is None else arrival.request.id,
            now_ms=self._now_ms,
        )
        self.plan.outputs.add(
            names.dead_letter,
            self._desk.partition % self._desk.widths[names.dead_letter],
            key,
            value,
            headers,
            self._now_ms,
        )
        self.plan.headcounts[source].tally["dead"] += 1
        self.plan.deaths[rejection.category.value] += 1
        return _row(taken, arrival, f"dead:{rejection.category.value}")

    def _describe(self, decision: Decision) -> _Alike:
        return _Alike(
            encode(self._summary(decision)),
            (decision.pool or "none", decision.reason.value, self._mode),
        )

    def _summary(self, decision: Decision) -> DecisionSummary:
        return DecisionSummary(
            reason=decision.reason,
            threshold=decision.threshold,
            policy=self._desk.policy.name,
            mode=self._mode,
            pool=decision.pool,
            node=decision.node,
            decided_at_ms=self._now_ms,
        )


def _row(
    taken: Taken, arrival: Arrival | None, outcome: str, decision: Decision | None = None
) -> DecisionRow:
    source, offset = taken.source, taken.record.offset
    if arrival is None:
        return DecisionRow(source, offset, "", 0, 0, 0, outcome)
    identity, attempt, redrive = arrival.identity
    if decision is None:
        return DecisionRow(source, offset, identity, arrival.digest, attempt, redrive, outcome)
    return DecisionRow(
        source,
        offset,
        identity,
        arrival.digest,
        attempt,
        redrive,
        outcome,
        decision.pool,
        decision.express,
        decision.node,
        decision.partition,
        arrival.features,
    )
