"""One run: a workload on a fleet under a policy, in virtual time, until every request has ended."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from lab.simulator.clock import Clock
from lab.simulator.control import Control, Second
from lab.simulator.fleet import Fleet
from lab.simulator.node import Node, Run
from lab.simulator.router import Routed, Router
from lab.simulator.workload import Asked
from schemas.outcomes import Reason
from schemas.value import Value
from streams.policy import Policy

Progress = Callable[[int], None]
"""Called with how many requests have ended, now and then."""
Hopeless = Callable[[Sequence["Ended"]], bool]
"""Asked as often whether what has ended so far already says enough."""
PROGRESS_EVERY = 1000


class End(str, Enum):
    """How a request ended."""

    RAN = "ran"
    EXPIRED = "expired"
    UNROUTABLE = "unroutable"


_RAN = End.RAN  # looked up for every request


class Ended(Value, frozen=True):
    """One request and what became of it.

    Attributes:
        pool, node: where it ended, "" if it was not routed.
        started_ms: when the run that ended it began; 0 if none did.
        latency_ms: from its arrival to its end.
        cost: coefficient x slot-seconds, in gpu slot-seconds; runs cut short included.
    """

    asked: Asked
    end: End
    pool: str
    node: str
    started_ms: float
    latency_ms: float
    cost: float


class Course(NamedTuple):
    """What one run came to: each request in the order it ended, and the threshold's seconds."""

    ended: list[Ended]
    seconds: list[Second]


def simulate(
    fleet: Fleet,
    requests: Sequence[Asked],
    policy: Policy,
    progress: Progress | None = None,
    hopeless: Hopeless | None = None,
) -> Course:
    """Return the course of the requests, which are in order of time; the same gives the same.

    It ends early once `hopeless` says so.
    """
    collecting = gc.isenabled()
    gc.disable()  # a run makes nothing cyclic, and looking for it costs a third of the time
    try:
        return _Simulation(fleet, requests, policy).run(progress, hopeless)
    finally:
        if collecting:
            gc.enable()


class _Simulation:
    def __init__(self, fleet: Fleet, requests: Sequence[Asked], policy: Policy) -> None:
        self._requests, self._delays = requests, fleet.delays
        self._clock = Clock()
        self._pools = {
            pool.name: [
                Node(pool.name, number, pool.slots, pool.profile, reserve=pool.express)
                for number in range(pool.nodes)
            ]
            for pool in fleet.pools
        }
        self._price = {pool.name: pool.cost_coefficient for pool in fleet.priced}
        self._spent: dict[int, float] = {}
        self._looks: dict[str, float] = {}
        self._ended: list[Ended] = []
        nodes = [node for nodes in self._pools.values() for node in nodes]
        widths = {name: len(nodes) for name, nodes in self._pools.items()}
        self._control = Control(
            fleet.priced,
            nodes,
            fleet.delays,
            self._clock,
            lambda: self._router.committed,
            len(requests),
        )
        self._router = Router(
            policy,
            fleet.priced,
            widths,
            fleet.delays,
            self._clock,
            self._control.news,
            self._committed,
        )
        self._plan_timetable(fleet, {node.id: node for node in nodes})

    def run(self, progress: Progress | None, hopeless: Hopeless | None) -> Course:
        self._control.begin()
        self._clock.expect(self._requests, self._router.take)
        ended, all_of_them = self._ended, len(self._requests)
        while len(ended) < all_of_them:
            self._clock.run(ended, min(len(ended) + PROGRESS_EVERY, all_of_them))
            if progress is not None:
                progress(len(ended))
            if hopeless is not None and hopeless(ended):
                break
        return Course(ended, self._control.course)

    def _committed(self, batch: Routed, now_ms: float) -> None:
        """Count what a transaction has routed; its nodes have it a fetch later."""
        for asked, decision in batch:
            if decision.pool is None:
                end = End.EXPIRED if decision.reason is Reason.EXPIRED else End.UNROUTABLE
                self._end(asked, end, now_ms)
                continue
            self._pools[decision.pool][decision.partition].routed += 1
        self._clock.at(now_ms + self._delays.fetch_ms, self._fetched, batch)

    def _fetched(self, batch: Routed, now_ms: float) -> None:
        reached: dict[str, Node] = {}
        for asked, decision in batch:
            if decision.pool is not None:
                node = self._pools[decision.pool][decision.partition]
                yields_ms = decision.yields_ms
                node.take(asked, now_ms, express=decision.express, yields_ms=yields_ms)
                reached[node.id] = node
        for node in reached.values():
            self._start(node, now_ms)

    def _start(self, node: Node, now_ms: float) -> None:
        plan, over = self._clock.at, self._over
        for run in node.start(now_ms):
            plan(now_ms + run.run_ms, over, (node, run))
        if node.expired:
            for asked in node.expired:
                self._end(asked, End.EXPIRED, now_ms, node)
            node.expired.clear()
        looks_at_ms = node.looks_at_ms
        if looks_at_ms is not None and self._looks.get(node.id, 0.0) != looks_at_ms:
            self._looks[node.id] = looks_at_ms
            plan(looks_at_ms, self._look, node)

    def _look(self, node: Node, now_ms: float) -> None:
        if self._looks.get(node.id) == now_ms:  # else another moment was planned since
            del self._looks[node.id]
            self._start(node, now_ms)

    def _over(self, started: tuple[Node, Run], now_ms: float) -> None:
        node, run = started
        if node.end(run):
            self._end(run.asked, _RAN, now_ms, node, run)
            self._start(node, now_ms)

    def _cost(self, node: Node, run: Run, ms: float) -> float:
        """Return what a request has cost with a run of so many ms, and those cut short before."""
        before = self._spent.pop(run.asked.number, 0.0)
        return before + self._price[node.pool] * ms / 1000

    def _end(
        self,
        asked: Asked,
        end: End,
        now_ms: float,
        node: Node | None = None,
        run: Run | None = None,
    ) -> None:
        pool, name, started_ms, cost = "", "", 0.0, 0.0
        if node is not None:
            pool, name = node.pool, node.id
            self._control.finish(node, now_ms + self._delays.result_ms)
            if run is None:
                cost = self._spent.pop(asked.number, 0.0)
            else:
                started_ms, cost = run.started_ms, self._cost(node, run, run.run_ms)
        self._ended.append(Ended(asked, end, pool, name, started_ms, now_ms - asked.at_ms, cost))

    def _plan_timetable(self, fleet: Fleet, nodes: dict[str, Node]) -> None:
        plan = self._clock.at
        for slow in fleet.slowdowns:
            node = nodes[slow.node]
            plan(slow.from_s * 1000, self._slow_down, (node, slow.factor))
            plan(slow.to_s * 1000, self._slow_down, (node, 1 / slow.factor))
        for away in fleet.outages:
            node = nodes[away.node]
            plan(away.from_s * 1000, self._go, node)
            plan(away.to_s * 1000, self._come_back, node)

    def _slow_down(self, slower: tuple[Node, float], _: float) -> None:
        node, factor = slower
        node.slow_down(factor)

    def _go(self, node: Node, now_ms: float) -> None:
        for run in node.go(now_ms):
            self._spent[run.asked.number] = self._cost(node, run, now_ms - run.started_ms)

    def _come_back(self, node: Node, now_ms: float) -> None:
        node.up = True
        self._start(node, now_ms)
