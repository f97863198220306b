"""A fleet in virtual time: the real control plane's folds, the real view and policy, made-up nodes.

Nodes work off what they are sent in their slots; control probes every 100 ms and hears reports
every 500 ms; the router hears each snapshot a moment later. No clock, no broker: a minute takes
about a second.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from executors.latency import LatencyWindow
from schemas.control import LagSample, NodeReport, PartitionLag, Snapshot
from schemas.message import encode
from schemas.outcomes import Mode
from schemas.pools import DEFAULT_POOLS, ComputeType
from streams.control.desk import Desk
from streams.control.orders import OrderBook
from streams.control.tables import Tables
from streams.control.term import take_over
from streams.policy import Decision, View, policy
from streams.policy.controllers import CONTROLLERS
from streams.router.deltas import Delta
from streams.router.outlook import Outlook
from tests.fleet import request

PROBE_S = 0.1
REPORT_S = 0.5
DELIVERY_S = 0.02
"""From a probe to the router: it is measured in the tests on a broker."""

Place = tuple[str, int]


class Decided(NamedTuple):
    """One request's decision, and how much the router knew."""

    at_s: float
    mode: Mode
    decision: Decision


@dataclass
class VirtualNode:
    """A node that runs what it is sent in the order in which it comes.

    Attributes:
        run_s: of a request that starts now.
        reports: whether it lives; one that does not finishes nothing either.
    """

    name: str
    partitions: tuple[int, ...]
    slots: int = 8
    run_s: float = 0.05
    generation: int = 1
    reports: bool = True
    waiting: deque[tuple[float, Place]] = field(default_factory=deque)
    ends: list[tuple[float, float, Place]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.latency = LatencyWindow(self.run_s * 1000)

    @property
    def pool(self) -> str:
        """Return its pool: its name up to the last dash."""
        return self.name.rpartition("-")[0]

    def work(self, now_s: float) -> list[Place]:
        """Run until now, and return where each finished request came from."""
        finished: list[Place] = []
        while self.reports:
            if self.waiting and len(self.ends) < self.slots:
                self._start(*self.waiting.popleft())
            elif self.ends and self.ends[0][0] <= now_s:
                end_s, run_s, place = heapq.heappop(self.ends)
                self.latency.add(run_s * 1000)
                finished.append(place)
                if self.waiting:
                    self._start(max(end_s, self.waiting[0][0]), self.waiting.popleft()[1])
            else:
                break
        return finished

    def report(self) -> NodeReport:
        """Return what it says of itself."""
        return NodeReport(
            node=self.name,
            pool=self.pool,
            compute_type=ComputeType(self.pool),
            generation=self.generation,
            state="ready",
            slots=self.slots,
            busy=len(self.ends),
            partitions=self.partitions,
            backend="emulated",
            latency_mean_ms=self.latency.read().mean_ms,
            reported_at_ms=0,
        )

    def _start(self, at_s: float, place: Place) -> None:
        heapq.heappush(self.ends, (at_s + self.run_s, self.run_s, place))


class World:
    """A router, a control worker and nodes, at one moment.

    Attributes:
        now_s: seconds of virtual time.
        control: whether a control worker speaks.
    """

    def __init__(self, *nodes: VirtualNode, partitions: int = 4) -> None:
        self.now_s = 0.0
        self.nodes = {node.name: node for node in nodes}
        self.control = True
        self._partitions = partitions
        widths = dict.fromkeys(("gpu", "cpu", "npu"), partitions)
        self.outlook = Outlook(View(DEFAULT_POOLS, "router", widths))
        self._policy = policy("overflow")
        self._routed: Counter[Place] = Counter()
        self._finished: Counter[Place] = Counter()
        self._decided = 0
        self._offset = 0
        self._on_the_way: deque[tuple[float, Snapshot]] = deque()
        self._last: Snapshot | None = None
        self._probe_due_s = self._report_due_s = 0.0
        self.take_over()

    def take_over(self) -> None:
        """Let a new control worker begin, from what was published last."""
        self.control = True
        self._desk = Desk(Tables({}, {}, {}, {}), DEFAULT_POOLS, CONTROLLERS["article"])
        self._desk.take_duty(self._offset, self._offset, self.now_s)
        self._desk.begin_term(take_over(self._last, OrderBook(), self.now_s))
        self._number = 0

    def join(self, node: VirtualNode) -> None:
        """Let a node report for the first time now."""
        self.nodes[node.name] = node
        self._hear(node)

    def run_to(self, at_s: float) -> None:
        """Let time pass."""
        while True:
            due_s = min(self._probe_due_s, self._report_due_s)
            arrives_s = self._on_the_way[0][0] if self._on_the_way else at_s + 1.0
            self.now_s = min(due_s, arrives_s, at_s)
            for node in self.nodes.values():
                self._finished.update(node.work(self.now_s))
            if self.now_s == at_s and at_s < min(due_s, arrives_s):
                return
            if arrives_s <= due_s:
                _, snapshot = self._on_the_way.popleft()
                self.outlook.hear(snapshot, encode(snapshot), self.now_s)
            elif self._report_due_s <= self._probe_due_s:
                self._report_due_s += REPORT_S
                for node in self.nodes.values():
                    if node.reports:
                        self._hear(node)
            else:
                self._probe_due_s += PROBE_S
                if self.control:
                    self._probe()

    def route(self) -> Decision:
        """Decide one request now, as a router's lane does, and hand it to its node."""
        self.outlook.look(self.now_s)
        view = self.outlook.view
        decision = self._policy.decide(request(key_hash=self._decided), view, 0)
        view.add(decision)
        assert decision.pool is not None
        place = decision.pool, decision.partition
        self._decided += 1
        self._routed[place] += 1
        self.outlook.deltas.add(Delta(0, (self._decided, -1), {place: 1}, self.now_s))
        for node in self.nodes.values():
            if node.pool == decision.pool and decision.partition in node.partitions:
                node.waiting.append((self.now_s, place))
                self._finished.update(node.work(self.now_s))
        return decision

    def traffic(self, gaps_s: Iterable[float], until_s: float) -> list[Decided]:
        """Route a request after each gap, and return what was decided when."""
        decisions = []
        for gap_s in gaps_s:
            if self.now_s + gap_s > until_s:
                break
            self.run_to(self.now_s + gap_s)
            decision = self.route()
            decisions.append(Decided(self.now_s, self.outlook.view.mode, decision))
        return decisions

    def _hear(self, node: VirtualNode) -> None:
        if self.control:
            self._offset += 1
            report = encode(node.report())
            self._desk.report(self._offset, node.name.encode(), report, self.now_s)

    def _probe(self) -> None:
        self._offset += 1
        self._desk.sample(self._offset, b"lag", encode(self._sample()), self.now_s)
        now_ms = int(self.now_s * 1000)
        snapshot = self._desk.snapshot(self._number + 1, now_ms, self.now_s)
        if snapshot is not None:
            self._number, self._last = snapshot.number, snapshot
            self._on_the_way.append((self.now_s + DELIVERY_S, snapshot))

    def _sample(self) -> LagSample:
        def lag(place: Place) -> PartitionLag:
            routed, finished = self._routed[place], self._finished[place]
            return PartitionLag(routed=routed, finished=finished, unfinished=routed - finished)

        numbers = range(self._partitions)
        return LagSample(
            probed_at_ms=int(self.now_s * 1000),
            took_ms=3.0,
            pools={p.name: tuple(lag((p.name, n)) for n in numbers) for p in DEFAULT_POOLS},
            requests_included=(self._decided,),
            retry_included=(-1,),
        )
