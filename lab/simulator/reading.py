"""One reading of control's counts, and the snapshot that it comes to.

Most readings are never routed by, so a snapshot is made from one only once somebody wants it. It
says what control's own would, in bare values: a message is for the wire, and takes ten times as
long to make. A node of which it says the same as before is the very same object, as it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.simulator.node import Node
from schemas.control import NODE_TTL_S
from schemas.pools import ComputeType, Pool
from schemas.service import ServiceTime
from schemas.value import Value
from streams.control.desk import MEASURE_EVERY_S
from streams.control.speeds import NOTHING, Measured, speeds_of

_MS_PER_S = 1000


class Heard(Value, frozen=True):
    """What a node said last, and how many records it had finished by what control knew then."""

    at_ms: float
    busy: int
    latency_ms: float
    queued: tuple[int, int, int]
    service: tuple[ServiceTime, ...]
    finished: int


class Reading(Value, frozen=True):
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


class ToldPartition(Value, frozen=True):
    """One pool partition."""

    unfinished: int
    finish_rate: float


class ToldPool(Value, frozen=True):
    """One pool; nobody pauses it."""

    partitions: Sequence[ToldPartition]
    paused: bool = False


class ToldNode(Value, frozen=True):
    """One node; it serves every model and never drains."""

    id: str
    pool: str
    live: bool
    slots: int
    busy: int
    partitions: tuple[int, ...]
    latency_ms: float
    queued: tuple[int, int, int]
    slowness: float
    draining: bool = False
    blocked: tuple[int, ...] = ()
    models: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()


class Told(Value, frozen=True):
    """A snapshot, as far as routers read it (`streams.policy.told`)."""

    number: int
    probed_at_ms: int
    published_at_ms: int
    threshold: int
    pools: Mapping[str, ToldPool]
    nodes: Sequence[ToldNode]
    service: Mapping[ComputeType, Sequence[ServiceTime]]
    requests_included: tuple[int, ...]
    retry_included: tuple[int, ...] = (-1,)
    generation: int = 1


def lives(heard: Heard, reading: Reading) -> bool:
    """Return whether a node of which this was heard last counts as live in the reading."""
    return reading.published_at_ms - heard.at_ms <= NODE_TTL_S * _MS_PER_S


class Snapshots:
    """Makes snapshots from readings, given in order of time.

    Attributes:
        of_pool: by pool: the places of its nodes in the fleet's order, one after another.
    """

    def __init__(self, pools: tuple[Pool, ...], nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._types = {pool.name: pool.compute_type for pool in pools}
        names = [node.pool for node in nodes]
        self.of_pool = {
            name: range(names.index(name), names.index(name) + names.count(name))
            for name in self._types
        }
        self._speeds = NOTHING
        self._measure_due_ms = 0.0
        self._told: Sequence[ToldNode | None] = [None for _ in nodes]

    def of(self, reading: Reading) -> Told:
        """Return a reading as control publishes it."""
        self._measure(reading)
        partitions = [
            ToldPartition(routed - finished, rate)
            for routed, finished, rate in zip(
                reading.routed, reading.finished, reading.rates, strict=True
            )
        ]
        return Told(
            reading.number,
            reading.probed_at_ms,
            round(reading.published_at_ms),
            reading.threshold,
            {
                pool: ToldPool(partitions[places.start : places.stop])
                for pool, places in self.of_pool.items()
            },
            self._nodes_of(reading),
            self._speeds.service,
            (reading.included,),
        )

    def _measure(self, reading: Reading) -> None:
        if reading.published_at_ms >= self._measure_due_ms:
            self._measure_due_ms = reading.published_at_ms + MEASURE_EVERY_S * _MS_PER_S
            told = [
                Measured(node.id, self._types[node.pool], heard.service)
                for node, heard in zip(self._nodes, reading.heard, strict=True)
            ]
            self._speeds = speeds_of(told, self._speeds)

    def _nodes_of(self, reading: Reading) -> list[ToldNode]:
        slowness = self._speeds.slowness
        states: list[ToldNode] = []
        for node, known, heard, finished in zip(
            self._nodes, self._told, reading.heard, reading.finished, strict=True
        ):
            since = finished - heard.finished
            state = ToldNode(
                node.id,
                node.pool,
                lives(heard, reading),
                node.slots.total,
                heard.busy - since if heard.busy > since else 0,
                node.partitions,
                heard.latency_ms,
                heard.queued,
                slowness.get(node.id, 1.0),
            )
            states.append(known if known is not None and known == state else state)
        self._told = states
        return states
