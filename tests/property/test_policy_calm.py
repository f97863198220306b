"""A busy, healthy gpu does not look full, and an overloaded one does.

A small simulation with the real view and policy: requests of 50 ms arrive at random, nodes work off
their partitions in order, and the router knows counts that were read 100 to 200 ms ago.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from typing import NamedTuple

import pytest

from schemas.control import NodeState, PartitionState, PoolState, Snapshot
from schemas.outcomes import Mode, Reason
from schemas.pools import DEFAULT_POOLS
from streams.policy import View, policy
from tests.fleet import request

SLOTS = 8
RUN_MS = 50.0
PARTITIONS = range(4)
PROBE_EVERY_MS = 100.0
DELIVERY_MS = 100.0
"""From a probe to its use: ages go from 100 to 200 ms."""
PROBES_OF_RATE = 10
"""Finish rates are means over the last second, as control smooths them."""
BEGIN_MS, END_MS = 1500.0, 8000.0
"""What is judged: from when the rates have seen the load."""


class Probe(NamedTuple):
    """Counts by partition at one moment."""

    at_ms: float
    routed: Counter[int]
    finished: Counter[int]


class Gpus:
    """Nodes that run what they are sent, in order, in 8 slots of 50 ms each."""

    def __init__(self, nodes: int) -> None:
        self.owned = [tuple(PARTITIONS[number::nodes]) for number in range(nodes)]
        self.probes = [Probe(0.0, Counter(), Counter())]
        self.routed: Counter[int] = Counter()
        self._finished: Counter[int] = Counter()
        self._free_at_ms = [[0.0] * SLOTS for _ in range(nodes)]
        self._ends: list[deque[tuple[float, int]]] = [deque() for _ in range(nodes)]

    def take(self, now_ms: float, partition: int) -> None:
        """Start a request as soon as a slot of the partition's node is free."""
        number = partition % len(self.owned)
        start_ms = max(now_ms, heapq.heappop(self._free_at_ms[number]))
        heapq.heappush(self._free_at_ms[number], start_ms + RUN_MS)
        self._ends[number].append((start_ms + RUN_MS, partition))
        self.routed[partition] += 1

    def probe_until(self, now_ms: float) -> None:
        """Read all counts every 100 ms."""
        while (at_ms := self.probes[-1].at_ms + PROBE_EVERY_MS) <= now_ms:
            for ends in self._ends:
                while ends and ends[0][0] <= at_ms:
                    self._finished[ends.popleft()[1]] += 1
            self.probes.append(Probe(at_ms, self.routed.copy(), self._finished.copy()))

    def snapshot(self, number: int) -> Snapshot:
        """Return what control publishes after that probe."""
        probe, before = self.probes[number], self.probes[max(0, number - PROBES_OF_RATE)]
        seconds = max(PROBE_EVERY_MS, probe.at_ms - before.at_ms) / 1000
        lags = [
            PartitionState(
                unfinished=probe.routed[p] - probe.finished[p],
                finish_rate=(probe.finished[p] - before.finished[p]) / seconds,
            )
            for p in PARTITIONS
        ]
        gpus = [
            NodeState(
                id=f"gpu-{node}",
                pool="gpu",
                live=True,
                slots=SLOTS,
                busy=min(SLOTS, sum(lags[p].unfinished for p in owned)),
                partitions=owned,
                latency_ms=RUN_MS,
            )
            for node, owned in enumerate(self.owned)
        ]
        cpu = NodeState(
            id="cpu", pool="cpu", live=True, slots=10_000, partitions=(0,), latency_ms=800.0
        )
        return Snapshot(
            number=number,
            generation=1,
            probed_at_ms=int(probe.at_ms),
            published_at_ms=int(probe.at_ms),
            threshold=10,
            pools={"gpu": PoolState(routed_total=0, finished_total=0, partitions=tuple(lags))},
            nodes=(*gpus, cpu),
            requests_included=(),
            retry_included=(),
        )


def share_that_leaves(nodes: int, load: float, seed: int) -> float:
    """Return which share of the requests overflows, when they come at this load."""
    arrivals = random.Random(seed)
    gpus = Gpus(nodes)
    view = View(DEFAULT_POOLS, "router", dict.fromkeys(("gpu", "cpu", "npu"), len(PARTITIONS)))
    view.mode = Mode.NORMAL
    overflow = policy("overflow")
    reasons: Counter[Reason] = Counter()
    now_ms, used = 0.0, -1
    while now_ms < END_MS:
        now_ms += arrivals.expovariate(load * nodes * SLOTS / RUN_MS)
        gpus.probe_until(now_ms)
        newest = max(0, int((now_ms - DELIVERY_MS) / PROBE_EVERY_MS))
        probe = gpus.probes[newest]
        if newest != used:
            used = newest
            own = {("gpu", p): gpus.routed[p] - probe.routed[p] for p in PARTITIONS}
            view.load(gpus.snapshot(newest), own)
        view.advance(now_ms - probe.at_ms)
        decision = overflow.decide(request(), view, 0)
        view.add(decision)
        if decision.pool == "gpu":
            gpus.take(now_ms, decision.partition)
        if now_ms >= BEGIN_MS:
            reasons[decision.reason] += 1
    assert reasons.keys() <= {Reason.GPU_PREFERRED, Reason.OVERFLOW}
    return reasons[Reason.OVERFLOW] / reasons.total()


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_at_70_percent_load_nothing_leaves_the_gpu(nodes: int, seed: int) -> None:
    assert share_that_leaves(nodes, 0.7, seed) == 0


@pytest.mark.parametrize("nodes", [1, 3])
def test_at_150_percent_load_what_is_too_much_leaves(nodes: int) -> None:
    too_much = 1 - 1 / 1.5
    assert share_that_leaves(nodes, 1.5, seed=0) == pytest.approx(too_much, rel=0.1)
