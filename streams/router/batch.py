"""What becomes of a batch of records: routed, ended here, dead, or seen before.

A batch goes through three passes: read every record, decide every request in the order of arrival,
write what follows. Pass by pass costs half of record by record, as each pass stays in the
processor's caches; and only the decisions have to be one stretch. All of it ends in one `Plan`: the
outputs of one transaction and what will hold once it is committed. Nothing outside the plan changes
but window, bindings and view, which the lane takes back if the commit did not happen.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.kafka.records import Received, Undecodable
from schemas.decisions import DecisionRow
from schemas.errors import RecordRejected
from schemas.headers import DECISION, Origin
from schemas.message import encode
from schemas.metadata import RouterCounts
from schemas.outcomes import DeadLetterCategory, Reason
from schemas.result import DecisionHeader
from schemas.value import replace
from schemas.work import mflop_of
from streams.policy import Decision
from streams.router.bindings import Binding
from streams.router.desk import Desk
from streams.router.endings import fault
from streams.router.intake import Arrival, take_request, take_retry
from streams.router.part import Fate, Part
from streams.router.plan import REQUESTS, RETRY, Headcount, Plan, add_up
from streams.router.queue import Run
from streams.router.routed import Routed
from streams.router.unrouted import Unrouted
from streams.router.window import Identity

PART_RECORDS = 100
"""About 3 ms of reading or writing: other lanes' transactions go on in between."""
_STICKY = Reason.STICKY.value
_SENT_BEFORE = "the id was sent before with other bytes; give each request its own id"


class Batch:
    """One plan in the making: read all parts, decide once, write all parts, count.

    Attributes:
        parts: of the batch, in order; between two of them a caller may do other things.
    """

    def __init__(
        self, desk: Desk, runs: Sequence[Run], before: tuple[RouterCounts, RouterCounts]
    ) -> None:
        self.plan = Plan((Headcount(before[REQUESTS]), Headcount(before[RETRY])))
        self.plan.take(runs)
        self.parts = [
            Part(source, records[at : at + PART_RECORDS])
            for source, records in runs
            for at in range(0, len(records), PART_RECORDS)
        ]
        self._desk = desk
        self._routed: dict[tuple[object, ...], Routed] = {}
        self._bound_to: dict[Identity, Binding] = {}
        self._unwritten: dict[Identity, RecordRejected] = {}
        # Set by `decide`, which comes before what needs them.
        self._unrouted: Unrouted
        self._now_ms: int
        self._mode: str
        # Filled in with an offset: the encoded origin of each record of `requests`.
        self._origin = Origin(desk.names.requests, desk.partition, 0).encode()[:-1] + b"%d"

    def read(self, part: Part) -> None:
        """Read the requests that records are."""
        arrivals, origin, source = part.arrivals, self._origin, part.source
        for record in part.records:
            arrival: Arrival | RecordRejected
            try:
                if isinstance(record, Undecodable):
                    arrival = RecordRejected(DeadLetterCategory.UNDECODABLE, record.why)
                elif source == RETRY:
                    arrival = take_retry(record)
                else:
                    arrival = take_request(origin % record.offset, record)
            except RecordRejected as rejection:
                arrival = rejection
            except Exception as error:  # noqa: BLE001  a fault of ours must not hold up the partition
                arrival = fault(error)
            arrivals.append(arrival)

    def decide(self, now_ms: int) -> None:
        """Decide all requests, in one stretch: nothing else may change the view meanwhile."""
        view, bindings = self._desk.view, self._desk.bindings
        self._now_ms, self._mode = now_ms, view.mode.value
        self._unrouted = Unrouted(self._desk, self.plan, now_ms)
        view.bindings = bindings.by_conversation
        for part in self.parts:
            source = part.source
            part.fates = [
                arrival
                if isinstance(arrival, RecordRejected)
                else self._decide_one(source, arrival)
                for arrival in part.arrivals
            ]
        for routed in self._routed.values():
            self.plan.routed[routed.pool, routed.partition] += sum(routed.records)

    def write(self, part: Part) -> None:
        """Write what was decided, and the rows that tell it."""
        rows, now_ms, source = self.plan.rows, self._now_ms, part.source
        for record, arrival, fate in zip(part.records, part.arrivals, part.fates, strict=True):
            if type(fate) is not Routed or type(arrival) is not Arrival:
                rows.append(self._write_other(source, record, arrival, fate))
                continue
            try:
                headers = arrival.headers()
                headers.append(fate.header)
                fate.destination.add(arrival.key, arrival.value, headers, now_ms)
            except Exception as error:  # noqa: BLE001  as in `read`
                fate.records[source] -= 1
                rows.append(self._take_back(source, record, arrival, error))
                continue
            if arrival.features.gflops:
                fate.mflop[source] += mflop_of(arrival.features.gflops)
            if arrival.dropped:
                self.plan.dropped_headers += arrival.dropped
            name, attempt, redrive = identity = arrival.identity
            rows.append(
                DecisionRow(
                    source, record.offset, name, arrival.digest, attempt, redrive, fate.reason,
                    fate.pool, fate.express, fate.node, fate.partition, arrival.features,
                    fate.released, self._bound_to.get(identity) if self._bound_to else None,
                )
            )  # fmt: skip
        part.let_go()

    def count(self) -> None:
        """Count what was written; the last pass."""
        for routed in self._routed.values():
            for source, headcount in enumerate(self.plan.headcounts):
                partition = routed.partition
                add_up(headcount.routed, routed.counted_as, partition, routed.records[source])
                add_up(headcount.work, routed.pool, partition, routed.mflop[source])
            labels = routed.pool, routed.reason, self._mode
            self.plan.outcomes[labels] += sum(routed.records)

    def _decide_one(self, source: int, arrival: Arrival) -> Fate:
        desk, plan, now_ms = self._desk, self.plan, self._now_ms
        features, identity = arrival.features, arrival.identity
        seen = desk.window.claim(identity, arrival.digest, now_ms)
        if seen is not None:
            if seen == arrival.digest:
                return None
            return RecordRejected(DeadLetterCategory.CONFLICT, _SENT_BEFORE)
        try:
            decision = desk.policy.decide(features, desk.view, now_ms)
            desk.view.add(decision)
        except Exception as error:  # noqa: BLE001  as in `read`
            desk.window.forget(identity)
            return fault(error)
        plan.remembered += 1
        alike = (
            decision.reason, decision.threshold, decision.pool, decision.node, decision.partition,
            decision.express, decision.released, decision.yields_ms,
        )  # fmt: skip
        routed = self._routed.get(alike)
        if routed is None:
            if decision.pool is None:
                return decision
            routed = self._routed[alike] = self._describe(decision, decision.pool)
        routed.records[source] += 1
        conversation = features.conversation
        if conversation:
            bound_to = desk.bindings.by_conversation.get(conversation)
            if bound_to is not None:
                self._bound_to[identity] = bound_to
            if routed.node:
                settles = routed.reason == _STICKY or routed.released != ""
                binding = routed.pool, routed.node
                before = desk.bindings.bind(conversation, binding, settles=settles)
                plan.bound.append((conversation, before))
        return routed

    def _describe(self, decision: Decision, pool: str) -> Routed:
        topic, counted_as = self._desk.pool_topics[pool, decision.express]
        return Routed(
            reason=decision.reason.value,
            pool=pool,
            node=decision.node,
            partition=decision.partition,
            express=decision.express,
            released=decision.released,
            destination=self.plan.outputs.to(topic, decision.partition),
            counted_as=counted_as,
            header=(DECISION, encode(self._summary(decision))),
            records=[0, 0],
            mflop=[0, 0],
        )

    def _write_other(
        self, source: int, record: Received, arrival: Arrival | RecordRejected, fate: Fate
    ) -> DecisionRow:
        """Write what becomes of a record that is not routed, and return its row."""
        unrouted = self._unrouted
        if isinstance(arrival, RecordRejected):
            return unrouted.bury(source, record, None, arrival)
        fate = fate or self._unwritten.get(arrival.identity)  # buried just now: no repeat of it
        if isinstance(fate, RecordRejected):
            return unrouted.bury(source, record, arrival, fate)
        if not isinstance(fate, Decision):
            return unrouted.repeat(source, record, arrival)
        try:
            return unrouted.end(source, record, arrival, fate, self._summary(fate))
        except Exception as error:  # noqa: BLE001  as in `read`
            return self._take_back(source, record, arrival, error)

    def _take_back(
        self, source: int, record: Received, arrival: Arrival, error: Exception
    ) -> DecisionRow:
        """Bury a request that was decided and cannot be written: it is as if never seen.

        Its row has what was read all the same: the decisions after it were made with its load.
        """
        self._desk.window.forget(arrival.identity)
        self.plan.remembered -= 1
        why = self._unwritten[arrival.identity] = fault(error)
        row = self._unrouted.bury(source, record, arrival, why)
        bound_to = self._bound_to.get(arrival.identity)
        return replace(row, features=arrival.features, bound_to=bound_to)

    def _summary(self, decision: Decision) -> DecisionHeader:
        return DecisionHeader(
            reason=decision.reason,
            threshold=decision.threshold,
            policy=self._desk.policy.name,
            mode=self._mode,
            pool=decision.pool,
            node=decision.node,
            yields_ms=decision.yields_ms,
            decided_at_ms=self._now_ms,
            counts_work=True,
        )
