"""What becomes of a batch of records: routed, ended here, dead, or seen before.

A batch goes through three passes: read every record, decide every request in the order of arrival,
write what follows. Pass by pass costs half of record by record, as each pass stays in the
processor's caches; and only the decisions have to be one stretch. All of it ends in one `Plan`: the
outputs of one transaction and what will hold once it is committed. Nothing outside the plan changes
but window, bindings and view, which the lane takes back if the commit did not happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from runtime.kafka.partitioning import partition_of
from runtime.kafka.records import Received, Undecodable
from schemas.dead_letter import can_be_kept
from schemas.decisions import DecisionRow
from schemas.errors import RecordRejected
from schemas.fast import quick
from schemas.features import to_row
from schemas.headers import DECISION, EXCLUDED, Headers, Origin
from schemas.message import encode
from schemas.metadata import RouterCounts
from schemas.outcomes import DeadLetterCategory, Reason
from schemas.pools import Pool
from schemas.result import DecisionSummary
from schemas.topics import TopicNames
from streams.policy import Decision, Policy, View
from streams.router.endings import dead_letter_headers, ending, fault
from streams.router.intake import Arrival, take_request, take_retry
from streams.router.plan import REQUESTS, RETRY, Headcount, Plan, Taken
from streams.router.window import Bindings, DuplicateWindow

RECORDS_MAX = 1000
"""A transaction costs about 10 ms whatever it holds; beyond this its own latency grows instead."""
BATCH_BYTES_MAX = 480 * 1024
"""Of values and headers. A decision row holds no text but the request's own, so that with 300 bytes
a row and a snapshot of 200 KB the decisions record stays under its 1 MiB."""

PART_RECORDS = 100
"""About 3 ms of reading or writing: other lanes' transactions go on in between."""


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


def cut(queue: deque[Taken]) -> list[Taken]:
    """Return the records at the head of the queue that fit one transaction: at least one."""
    taken: list[Taken] = []
    weight = 0
    while queue and len(taken) < RECORDS_MAX:
        weight += queue[0].weight
        if taken and weight > BATCH_BYTES_MAX:
            break
        taken.append(queue.popleft())
    return taken


class Batch:
    """One plan in the making: read all parts, decide once, write all parts.

    Attributes:
        parts: slices of the batch, in order; between two of them a caller may do other things.
    """

    def __init__(
        self, desk: Desk, taken: list[Taken], before: tuple[RouterCounts, RouterCounts]
    ) -> None:
        self.plan = Plan((Headcount(before[REQUESTS]), Headcount(before[RETRY])))
        self.plan.take(taken)
        self.parts = [slice(at, at + PART_RECORDS) for at in range(0, len(taken), PART_RECORDS)]
        self._desk = desk
        self._taken = taken
        self._read: list[Arrival | RecordRejected] = []
        self._decided: list[Decision | RecordRejected | None] = []
        self._now_ms = 0
        self._mode = ""
        self._alike: dict[tuple[Reason, str | None, str | None], _Alike] = {}
        # Filled in with an offset: the encoded origin of each record of `requests`.
        self._origin = Origin(desk.names.requests, desk.partition, 0).encode()[:-1] + b"%d"

    def read(self, part: slice) -> None:
        """Read the requests that records are."""
        self._read += [self._read_one(*taken) for taken in self._taken[part]]

    def decide(self, now_ms: int) -> None:
        """Decide all requests, in one stretch: nothing else may change the view meanwhile."""
        self._now_ms = now_ms
        self._mode = self._desk.view.mode.value
        self._desk.view.bindings = self._desk.bindings.by_conversation
        self._decided = [
            arrival if isinstance(arrival, RecordRejected) else self._decide_one(arrival)
            for arrival in self._read
        ]

    def write(self, part: slice) -> None:
        """Write what the decisions ask for, and their rows."""
        part_of_all = zip(self._taken[part], self._read[part], self._decided[part], strict=True)
        for taken, arrival, fate in part_of_all:
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
                except Exception as error:  # noqa: BLE001  as in `_read_one`; outputs fail last
                    self._bury(taken, arrival, fault(error))

    def _read_one(self, source: int, record: Received, _: int) -> Arrival | RecordRejected:
        try:
            if isinstance(record, Undecodable):
                return RecordRejected(DeadLetterCategory.UNDECODABLE, record.why)
            if source == RETRY:
                return take_retry(record.key, record.value, record.headers)
            origin = self._origin % record.offset
            return take_request(origin, record.timestamp, record.key, record.value, record.headers)
        except RecordRejected as rejection:
            return rejection
        except Exception as error:  # noqa: BLE001  a fault of ours must not hold up the partition
            return fault(error)

    def _decide_one(self, arrival: Arrival) -> Decision | RecordRejected | None:
        """Return a request's decision, None if it was decided before, or why it is buried."""
        desk, plan = self._desk, self.plan
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
            return fault(error)
        desk.window.add(arrival.identity, arrival.digest, self._now_ms)
        plan.remembered += 1
        pool = decision.pool
        if pool is not None:
            plan.routed[pool, decision.partition] += 1
            conversation = arrival.features.conversation
            if conversation is not None and decision.node is not None:
                before = desk.bindings.bind(conversation, (pool, decision.node))
                plan.bound.append((conversation, before))
        return decision

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
        arrival.headers.append((DECISION, summary))
        self.plan.outputs.add(
            topic, decision.partition, arrival.key, arrival.value, arrival.headers, self._now_ms
        )
        headcount.add_routed(counted_as, decision.partition)

    def _end(self, arrival: Arrival, decision: Decision) -> None:
        """Write the result of a request that no pool will see."""
        topic = self._desk.names.results
        result = ending(arrival, decision, self._summary(decision), self._now_ms)
        origin = Origin.decode(arrival.origin)
        partition = partition_of(arrival.key, origin, self._desk.widths[topic])
        # Who refused it is between routers and nodes.
        headers = [header for header in arrival.headers if header[0] != EXCLUDED]
        self.plan.outputs.add(topic, partition, arrival.key, encode(result), headers, self._now_ms)

    def _bury(self, taken: Taken, arrival: Arrival | None, rejection: RecordRejected) -> None:
        """Write a dead letter: the record as received, the error in its headers."""
        source, record, _ = taken
        names = self._desk.names
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


_decision_row = quick(DecisionRow)


def _row(
    taken: Taken, arrival: Arrival | None, outcome: str, decision: Decision | None = None
) -> DecisionRow:
    source, offset = taken.source, taken.record.offset
    if arrival is None:
        return DecisionRow(source, offset, "", 0, 0, 0, outcome)
    identity, attempt, redrive = arrival.identity
    if decision is None:
        return DecisionRow(source, offset, identity, arrival.digest, attempt, redrive, outcome)
    return _decision_row(
        (source, offset, identity, arrival.digest, attempt, redrive, outcome, decision.pool,
         decision.express, decision.node, decision.partition, to_row(arrival.features),
         decision.released)
    )  # fmt: skip
