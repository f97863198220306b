"""What becomes of a batch of records: routed, ended here, dead, or seen before.

A batch goes through three passes: read every record, decide every request in the order of arrival,
write what follows. Pass by pass costs half of record by record, as each pass stays in the
processor's caches. All of it ends in one `Plan`: the outputs of one transaction and what will hold
once it is committed. Nothing outside the plan changes but window, bindings and view, which the lane
takes back if the commit did not happen. Pure but for encoding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runtime.kafka.partitioning import partition_of
from runtime.kafka.records import Undecodable
from schemas.decisions import DecisionRow
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
BATCH_BYTES_MAX = 600 * 1024
"""Of values and headers. A decision row holds no text but the request's own, so that with 300 bytes
a row and a snapshot of 200 KB the decisions record stays under its 1 MiB."""


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
    taken = _cut(queue)
    batch = _Batch(desk, Plan((Headcount(before[REQUESTS]), Headcount(before[RETRY]))), now_ms)
    batch.plan.take(taken)
    read = [batch.read(each) for each in taken]
    decided = [batch.decide(each) for each in read]
    for each, arrival, fate in zip(taken, read, decided, strict=True):
        batch.write(each, arrival, fate)
    return batch.plan


def _cut(queue: deque[Taken]) -> list[Taken]:
    """Return the records at the head of the queue that fit one transaction: at least one."""
    taken: list[Taken] = []
    weight = 0
    while queue and len(taken) < RECORDS_MAX:
        weight += queue[0].weight
        if taken and weight > BATCH_BYTES_MAX:
            break
        taken.append(queue.popleft())
    return taken


class _Batch:
    """One plan in the making."""

    def __init__(self, desk: Desk, plan: Plan, now_ms: int) -> None:
        self.plan = plan
        self._desk = desk
        self._now_ms = now_ms
        self._mode = desk.view.mode.value
        self._alike: dict[tuple[Reason, str | None, str | None], _Alike] = {}
        desk.view.bindings = desk.bindings.by_conversation

    def read(self, taken: Taken) -> Arrival | RecordRejected:
        """Return the request that a record is, or why it is none."""
        source, record, _ = taken
        try:
            if isinstance(record, Undecodable):
                return RecordRejected(DeadLetterCategory.UNDECODABLE, record.why)
            if source == RETRY:
                return take_retry(record.key, record.value, record.headers)
            origin = Origin(self._desk.names.requests, self._desk.partition, record.offset)
            return take_request(origin, record.timestamp, record.key, record.value, record.headers)
        except RecordRejected as rejection:
            return rejection
        except Exception as error:  # noqa: BLE001  a fault of ours must not hold up the partition
            return _fault(error)

    def decide(self, arrival: Arrival | RecordRejected) -> Decision | RecordRejected | None:
        """Return a request's decision, None if it was decided before, or why it is buried."""
        if isinstance(arrival, RecordRejected):
            return arrival
        desk = self._desk
        seen = desk.window.digest_of(arrival.identity, self._now_ms)
        if seen is not None:
            if seen == arrival.digest:
                return None
            message = "the id was sent before with other bytes; give each request its own id"
            return RecordRejected(DeadLetterCategory.CONFLICT, message)
        try:
            decision = desk.policy.decide(arrival.features, desk.view, self._now_ms)
            desk.view.add(decision)
        except Exception as error:  # noqa: BLE001  as above
            return _fault(error)
        desk.window.add(arrival.identity, arrival.digest, self._now_ms)
        self.plan.remembered += 1
        conversation = arrival.features.conversation
        if conversation is not None and decision.pool is not None and decision.node is not None:
            before = desk.bindings.bind(conversation, (decision.pool, decision.node))
            self.plan.bound.append((conversation, before))
        return decision

    def write(
        self,
        taken: Taken,
        arrival: Arrival | RecordRejected,
        fate: Decision | RecordRejected | None,
    ) -> None:
        """Write what a record's fate asks for, and its row."""
        if isinstance(arrival, RecordRejected):
            self._bury(taken, None, arrival)
        elif isinstance(fate, RecordRejected):
            self._bury(taken, arrival, fate)
        elif fate is None:
            self.plan.duplicates += 1
            self.plan.headcounts[taken.source].tally["duplicate"] += 1
            self.plan.rows.append(_row(taken, arrival, "duplicate"))
        else:
            try:
                self._carry_out(taken, arrival, fate)
            except Exception as error:  # noqa: BLE001  as above; outputs are the last that can fail
                self._bury(taken, arrival, _fault(error))

    def _carry_out(self, taken: Taken, arrival: Arrival, decision: Decision) -> None:
        plan = self.plan
        made = decision.reason, decision.pool, decision.node
        alike = self._alike.get(made)
        if alike is None:
            alike = self._alike[made] = self._describe(decision)
        headcount = plan.headcounts[taken.source]
        if decision.pool is not None:
            self._route(headcount, arrival, decision, decision.pool, alike.summary)
        else:
            self._end(arrival, decision)
            headcount.tally["expired" if decision.reason is Reason.EXPIRED else "unroutable"] += 1
        plan.dropped_headers += arrival.dropped
        plan.outcomes[alike.labels] += 1
        plan.rows.append(_row(taken, arrival, alike.labels[1], decision))

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
        self.plan.outputs.add(
            topic, decision.partition, arrival.key, arrival.value, headers, self._now_ms
        )
        self.plan.routed[pool, decision.partition] += 1
        headcount.add_routed(counted_as, decision.partition)

    def _end(self, arrival: Arrival, decision: Decision) -> None:
        """Write the result of a request that no pool will see."""
        topic = self._desk.names.results
        result = ending(arrival, decision, self._summary(decision), self._now_ms)
        partition = partition_of(arrival.key, arrival.passage.origin, self._desk.widths[topic])
        headers = arrival.headers + encode_passage(arrival.passage)
        self.plan.outputs.add(topic, partition, arrival.key, encode(result), headers, self._now_ms)

    def _bury(
        self, taken: Taken, arrival: Arrival | None, rejection: RecordRejected
    ) -> None:
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
        self.plan.rows.append(_row(taken, arrival, f"dead:{rejection.category.value}"))

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


def _fault(error: Exception) -> RecordRejected:
    message = f"the router failed on it: {type(error).__name__}; please report this"
    return RecordRejected(DeadLetterCategory.INTERNAL, message)


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
