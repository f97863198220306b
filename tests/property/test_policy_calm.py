"""A busy, healthy gpu does not look full: nothing leaves it while it keeps up.

A small simulation with the real view and policy: requests arrive at random, nodes work off their
partitions in order, and the router knows counts that are at least 100 ms old.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter, deque
from itertools import pairwise

import pytest

from schemas.control import NodeState, PartitionState, PoolState, Snapshot
from schemas.outcomes import Mode, Reason
from schemas.pools import DEFAULT_POOLS
from streams.policy import View, policy
from tests.fleet import request

SLOTS = 8
RUN_MS = 50.0
PROBE_EVERY_MS = 100.0
DELIVERY_MS = 100.0
"""From a probe to its use: ages go from 100 to 200 ms."""
RATE_OVER_PROBES = 10
"""Finish rates are means over the last second, as control smooths them."""
DURATION_MS = 10_000.0
PARTITIONS = 4


class Node:
    """A node that runs what it is sent, in order, in 8 slots of 50 ms."""

    def __init__(self) -> None:
        self._free_at_ms = [0.0] * SLOTS
        self._ends: deque[tuple[float, int]] = deque()

    def take(self, now_ms: float, partition: int) -> None:
        start = max(now_ms, heapq.heappop(self._free_at_ms))
        heapq.heappush(self._free_at_ms, start + RUN_MS)
        self._ends.append((start + RUN_MS, partition))

    def finished(self, now_ms: float) -> list[int]:
        done = []
        while self._ends and self._ends[0][0] <= now_ms:
            done.append(self._ends.popleft()[1])
        return done


def simulate(nodes: int, load: float, seed: int) -> Counter[Reason]:
    """Return by which rules requests were routed for ten seconds at that load."""
    draw = random.Random(seed)
    per_ms = load * nodes * SLOTS / RUN_MS
    owned = [tuple(range(number, PARTITIONS, nodes)) for number in range(nodes)]
    owner = {partition: number for number, mine in enumerate(owned) for partition in mine}
    view = View(DEFAULT_POOLS, "router", dict.fromkeys(("gpu", "cpu", "npu"), PARTITIONS))
    view.mode = Mode.NORMAL
    overflow = policy("overflow")
    fleet = [Node() for _ in range(nodes)]
    routed, finished = Counter[int](), Counter[int]()
    probes: list[tuple[float, Counter[int], Counter[int]]] = [(0.0, Counter(), Counter())]
    reasons = Counter[Reason]()

    def snapshot(probe: int) -> Snapshot:
        at_ms, routed_then, finished_then = probes[probe]
        since_ms, _, finished_before = probes[max(0, probe - RATE_OVER_PROBES)]
        rates = {
            partition: (finished_then[partition] - finished_before[partition])
            / max(1.0, at_ms - since_ms)
            * 1000
            for partition in range(PARTITIONS)
        }
        unfinished = {p: routed_then[p] - finished_then[p] for p in range(PARTITIONS)}
        return Snapshot(
            number=probe,
            generation=1,
            probed_at_ms=int(at_ms),
            published_at_ms=int(at_ms),
            threshold=10,
            pools={
                "gpu": PoolState(
                    routed_total=0,
                    finished_total=0,
                    partitions=tuple(
                        PartitionState(unfinished=unfinished[p], finish_rate=rates[p])
                        for p in range(PARTITIONS)
                    ),
                )
            },
            nodes=(
                *(
                    NodeState(
                        id=f"gpu-{number}",
                        pool="gpu",
                        live=True,
                        slots=SLOTS,
                        busy=min(SLOTS, sum(unfinished[p] for p in owned[number])),
                        partitions=owned[number],
                        latency_ms=RUN_MS,
                    )
                    for number in range(nodes)
                ),
                NodeState(
                    id="cpu", pool="cpu", live=True, slots=64, partitions=(0, 1), latency_ms=800
                ),
            ),
            requests_included=(),
            retry_included=(),
        )

    now_ms, used = 0.0, -1
    while now_ms < DURATION_MS:
        now_ms += draw.expovariate(per_ms)
        while probes[-1][0] + PROBE_EVERY_MS <= now_ms:
            probe_ms = probes[-1][0] + PROBE_EVERY_MS
            for node in fleet:
                finished.update(node.finished(probe_ms))
            probes.append((probe_ms, routed.copy(), finished.copy()))
        newest = max(
            (n for n, probe in enumerate(probes) if probe[0] + DELIVERY_MS <= now_ms), default=0
        )
        if newest != used:
            used = newest
            own = {("gpu", p): routed[p] - probes[used][1][p] for p in range(PARTITIONS)}
            view.load(snapshot(used), own)
        view.advance(now_ms - probes[used][0])
        decision = overflow.decide(request(), view, 0)
        view.add(decision)
        reasons[decision.reason] += 1
        if decision.pool == "gpu":
            routed[decision.partition] += 1
            fleet[owner[decision.partition]].take(now_ms, decision.partition)
    return reasons
