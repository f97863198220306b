"""A small fleet in virtual time, routed by the very policy, counted and steered as control does it.

Requests come at random at a load that changes; nodes run what they are sent, in order; every 100 ms
the counts are read and become a snapshot, every second the threshold is stepped. Only the queues
are modelled: view, policy, lag table, snapshot and controller are the ones in production.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from schemas.control import LagSample, ModelRecord, NodeState, PartitionLag, Snapshot
from schemas.features import Features
from schemas.outcomes import Mode
from schemas.pools import CPU, DEFAULT_POOLS, GPU
from schemas.request import Priority
from streams.control.orders import OrderBook
from streams.control.rates import LagRow, fold_sample
from streams.control.snapshot import fleet_view, make_snapshot
from streams.control.term import TICK_S, ThresholdRow, tick
from streams.policy import DEFAULT_POLICY, View, policy
from streams.policy.controllers import Controller
from streams.policy.threshold import START

PROBE_MS = 100
DELIVERY_MS = 50
"""From a probe to the router: its snapshot's transaction and fetch."""
BATCH_MS = 10
"""What a router decides together: a transaction takes about as long."""
PROBES_A_TICK = round(TICK_S * 1000) // PROBE_MS
LARGE, SMALL = "large", "small"


class NodeKind(NamedTuple):
    """Nodes of one pool, all alike."""

    pool: str
    nodes: int
    slots: int
    run_ms: float


class Traffic(NamedTuple):
    """Requests a second, by the time in ms, and which share of them asks for a small model."""

    rate: Callable[[float], float]
    small: float


class Second(NamedTuple):
    """What control saw when it stepped the threshold, and the threshold from then on."""

    at_s: float
    gpu_depth: float
    cpu_depth: float
    threshold: int


def run(
    kinds: tuple[NodeKind, ...], traffic: Traffic, controller: Controller, seconds: int, seed: int
) -> list[Second]:
    """Return what control saw, second by second; the same seed gives the same."""
    router = _Router(kinds, traffic, seed)
    threshold = ThresholdRow(generation=1, threshold=START)
    lag: LagRow | None = None
    seen = []
    for number in range(seconds * 1000 // PROBE_MS):
        probed_ms = number * PROBE_MS
        sample = router.probe(probed_ms)
        lag = fold_sample(lag, sample)
        snapshot = router.snapshot(lag, threshold, number)
        if number % PROBES_A_TICK == 0:
            now = fleet_view(snapshot, DEFAULT_POOLS)
            gpu, cpu = now.pool(GPU).queue_depth, now.pool(CPU).queue_depth
            threshold = tick(threshold, controller, elapsed_s=TICK_S, gpu_depth=gpu, cpu_depth=cpu)
            snapshot = router.snapshot(lag, threshold, number)
            seen.append(Second(probed_ms / 1000, gpu, cpu, threshold.threshold))
        router.route_until(probed_ms + DELIVERY_MS)
        router.hear(snapshot)
        router.route_until(probed_ms + PROBE_MS)
    return seen


class _Node:
    """Runs requests in the order they come, each as soon as a slot is free; owns one partition."""

    def __init__(self, kind: NodeKind, number: int) -> None:
        self.kind, self.number = kind, number
        self.routed = self.finished = 0
        self._free_at_ms = [0.0] * kind.slots
        self._ends_ms: deque[float] = deque()

    def take(self, now_ms: float) -> None:
        end_ms = max(now_ms, heapq.heappop(self._free_at_ms)) + self.kind.run_ms
        heapq.heappush(self._free_at_ms, end_ms)
        self._ends_ms.append(end_ms)
        self.routed += 1

    def lag(self, now_ms: float) -> PartitionLag:
        while self._ends_ms and self._ends_ms[0] <= now_ms:
            self._ends_ms.popleft()
            self.finished += 1
        unfinished = self.routed - self.finished
        return PartitionLag(routed=self.routed, finished=self.finished, unfinished=unfinished)

    def state(self) -> NodeState:
        kind = self.kind
        return NodeState(
            id=f"{kind.pool}-{self.number}",
            pool=kind.pool,
            live=True,
            slots=kind.slots,
            busy=min(kind.slots, self.routed - self.finished),
            partitions=(self.number,),
            latency_ms=kind.run_ms,
        )


class _Router:
    """Decides each request as it comes, by what it last heard and has routed since."""

    def __init__(self, kinds: tuple[NodeKind, ...], traffic: Traffic, seed: int) -> None:
        self._pools = {kind.pool: [_Node(kind, n) for n in range(kind.nodes)] for kind in kinds}
        widths = {pool.name: len(self._pools.get(pool.name, "-")) for pool in DEFAULT_POOLS}
        self._view = View(DEFAULT_POOLS, "model", widths)
        self._view.mode = Mode.NORMAL
        self._view.load_models(
            {
                LARGE: ModelRecord(name=LARGE, parameters=13_000_000_000),
                SMALL: ModelRecord(name=SMALL, parameters=100_000_000),
            }
        )
        self._policy = policy(DEFAULT_POLICY)
        self._traffic = traffic
        self._draw = random.Random(seed)  # noqa: S311  seeded on purpose, nothing is secret
        self._next_ms = self._batch_ends_ms = 0.0
        self._probed_ms = 0

    def probe(self, now_ms: int) -> LagSample:
        """Return the counts as they are now."""
        return LagSample(
            probed_at_ms=now_ms,
            took_ms=0.0,
            pools={
                pool: tuple(node.lag(now_ms) for node in nodes)
                for pool, nodes in self._pools.items()
            },
            requests_included=(),
            retry_included=(),
        )

    def snapshot(self, lag: LagRow, threshold: ThresholdRow, number: int) -> Snapshot:
        """Return what control publishes of these counts."""
        nodes = tuple(node.state() for nodes in self._pools.values() for node in nodes)
        return make_snapshot(
            lag,
            nodes,
            threshold,
            OrderBook(),
            number=number,
            published_at_ms=lag.sample.probed_at_ms,
        )

    def hear(self, snapshot: Snapshot) -> None:
        """Believe a snapshot, and what was routed since its counts were read."""
        beyond = {
            (pool, node.number): node.routed - node.finished - counted.unfinished
            for pool, nodes in self._pools.items()
            for node, counted in zip(nodes, snapshot.pools[pool].partitions, strict=True)
        }  # nothing has finished for us since: that is only seen by the next probe
        self._probed_ms = snapshot.probed_at_ms
        self._view.load(snapshot, beyond)
        self._batch_ends_ms = 0.0

    def route_until(self, end_ms: float) -> None:
        """Route what comes before then."""
        while self._next_ms < end_ms:
            now_ms = self._next_ms
            if now_ms >= self._batch_ends_ms:
                self._view.advance(now_ms - self._probed_ms)
                self._batch_ends_ms = now_ms + BATCH_MS
            decision = self._policy.decide(self._request(), self._view, 0)
            self._view.add(decision)
            if decision.pool is not None:
                self._pools[decision.pool][decision.partition].take(now_ms)
            self._next_ms += self._draw.expovariate(self._traffic.rate(now_ms)) * 1000

    def _request(self) -> Features:
        model = SMALL if self._draw.random() < self._traffic.small else LARGE
        return Features(model, Priority.NORMAL, None, lora=False, gflops=None, expires_at_ms=2**50)
