"""One reading of control's counts, and the snapshot that it comes to.

Most readings are never routed by, so a snapshot is made from one only once somebody wants it. What
is in it as in the one before is the very same object, as it is of control's own making.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.simulator.node import Node
from schemas.control import NODE_TTL_S, NodeState, PartitionState, PoolState, Snapshot
from schemas.pools import Pool
from schemas.service import ServiceTime
from streams.control.desk import MEASURE_EVERY_S
from streams.control.speeds import NOTHING, Measured, speeds_of

_MS_PER_S = 1000

_Facts = tuple[bool, int, float, tuple[int, int, int], float]
"""Of a node, beside what never changes: live, busy, latency_ms, queued, slowness."""


class Heard(NamedTuple):
    """What a node said last, and how many records it had finished by what control knew then."""

    at_ms: float
    busy: int
    latency_ms: float
    queued: tuple[int, int, int]
    service: tuple[ServiceTime, ...]
    finished: int


class Reading(NamedTuple):
    """All that one snapshot says; by node in the fleet's order.

    Attributes:
        known_at_ms: when routers have it.
        included: offset of the requests whose routing the counts include.
    """

    number: int
    probed_at_ms: int
    published_at_ms: float
    known_at_ms: float
    threshold: int
    included: int
    routed: tuple[int, ...]
    finished: tuple[int, ...]
    rates: tuple[float, ...]
    heard: tuple[Heard, ...]


def lives(heard: Heard, reading: Reading) -> bool:
    """Return whether a node of which this was heard last counts as live in the reading."""
    return reading.published_at_ms - heard.at_ms <= NODE_TTL_S * _MS_PER_S


class Snapshots:
    """Makes snapshots from readings, given in order of time.

    Attributes:
        of_pool: by pool: the places of its nodes in the fleet's order.
    """

    def __init__(self, pools: tuple[Pool, ...], nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._types = {pool.name: pool.compute_type for pool in pools}
        self.of_pool = {
            pool.name: [index for index, node in enumerate(nodes) if node.pool == pool.name]
            for pool in pools
        }
        self._speeds = NOTHING
        self._measure_due_ms = 0.0
        self._states: list[tuple[_Facts, NodeState] | None] = [None for _ in nodes]
        self._partitions: list[tuple[int, float, PartitionState] | None] = [None for _ in nodes]

    def of(self, reading: Reading) -> Snapshot:
        """Return a reading as control publishes it."""
        routed, finished = reading.routed, reading.finished
        self._measure(reading)
        partitions = self._partitions_of(reading)
        return Snapshot(
            number=reading.number,
            generation=1,
            probed_at_ms=reading.probed_at_ms,
            published_at_ms=round(reading.published_at_ms),
            threshold=reading.threshold,
            pools={
                pool: PoolState(
                    routed_total=sum([routed[index] for index in indices]),
                    finished_total=sum([finished[index] for index in indices]),
                    partitions=tuple([partitions[index] for index in indices]),
                )
                for pool, indices in self.of_pool.items()
            },
            nodes=self._nodes_of(reading),
            service=dict(self._speeds.service),
            requests_included=(reading.included,),
            retry_included=(-1,),
        )

    def _measure(self, reading: Reading) -> None:
        if reading.published_at_ms >= self._measure_due_ms:
            self._measure_due_ms = reading.published_at_ms + MEASURE_EVERY_S * _MS_PER_S
            told = [
                Measured(node.id, self._types[node.pool], heard.service)
                for node, heard in zip(self._nodes, reading.heard, strict=True)
            ]
            self._speeds = speeds_of(told, self._speeds)

    def _partitions_of(self, reading: Reading) -> list[PartitionState]:
        """Return the state of each node's partition."""
        states = []
        for index, rate in enumerate(reading.rates):
            unfinished = reading.routed[index] - reading.finished[index]
            known = self._partitions[index]
            if known is None or known[0] != unfinished or known[1] != rate:
                state = PartitionState(unfinished=unfinished, finish_rate=rate)
                known = self._partitions[index] = unfinished, rate, state
            states.append(known[2])
        return states

    def _nodes_of(self, reading: Reading) -> tuple[NodeState, ...]:
        slowness, states = self._speeds.slowness, []
        for index, heard in enumerate(reading.heard):
            facts = (
                lives(heard, reading),
                max(0, heard.busy - (reading.finished[index] - heard.finished)),
                heard.latency_ms,
                heard.queued,
                slowness.get(self._nodes[index].id, 1.0),
            )
            known = self._states[index]
            if known is None or known[0] != facts:
                known = self._states[index] = facts, _state(self._nodes[index], facts)
            states.append(known[1])
        return tuple(states)


def _state(node: Node, facts: _Facts) -> NodeState:
    live, busy, latency_ms, queued, slowness = facts
    return NodeState(
        id=node.id,
        pool=node.pool,
        live=live,
        slots=node.slots.total,
        busy=busy,
        partitions=(node.number,),
        latency_ms=latency_ms,
        queued=queued,
        slowness=slowness,
    )
