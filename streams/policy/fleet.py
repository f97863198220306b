"""Node and PoolView: what a router believes of the fleet between two snapshots.

Loads change in place, one record at a time, so that a decision never recounts the fleet. Estimates
are multiples of 1/1024 record: their sums are exact in any order, hence a view that was kept up to
date equals one that was rebuilt, bit for bit.
"""

from __future__ import annotations

import operator
import zlib
from collections.abc import Iterable, Mapping
from functools import reduce
from math import inf

from schemas.pools import Pool
from streams.policy.estimates import Estimates
from streams.policy.told import NodeTold, PoolTold

_GRAIN = 1024
"""Estimates count in 1/1024 record: a power of two, so binary fractions hold them exactly."""
_MS_PER_S = 1000
_GRAINS_A_MS = _GRAIN / _MS_PER_S
"""Of a rate of one record a second."""
_SPEED_UP = 2.0
"""A node with a queue is taken to finish up to twice as fast as it did over the last seconds: from
half load on its slots are the limit then, and below half load there is no queue to misjudge."""


class Node:
    """A live node: what lasts of it, what it said last (`hear`), its load as estimated (`carry`).

    Attributes:
        unfinished: estimated records on the partitions it owns, as finished at its usual rate.
        backlog: the same, as finished at its busy rate.
        queued: those that have no slot.
        owned: partitions it owns.
        partitions: those it owns and can work on, in this router's order of preference.
        takes_work: not draining, and owns a partition it can work on.
        free_slots: slots - max(unfinished, busy), at least 0; 0 while a partition is blocked.
        wait_ms: how long a record sent to it now waits for a slot, about.
        order: of two nodes the smaller one is the better choice.
        rank: breaks ties; another one for each router, so that routers do not herd.
        busy_rate: records a second that it is taken to finish while it has a queue.
        passed: of what it has queued, records that work of each class may pass, by class.
        said: what the snapshot says of it.
        lasting: what of that does not change from report to report.
        claimed: partitions that it says are its own.
        slowness: how many times as long as on its compute type's other nodes runs take.
    """

    __slots__ = (
        "_blocked",
        "_full_rate",
        "backlog",
        "busy",
        "busy_rate",
        "claimed",
        "draining",
        "free_slots",
        "id",
        "lasting",
        "latency_ms",
        "models",
        "order",
        "owned",
        "partitions",
        "passed",
        "queued",
        "rank",
        "said",
        "slots",
        "slowness",
        "takes_work",
        "unfinished",
        "wait_ms",
    )

    def __init__(
        self,
        state: NodeTold,
        owned: list[int],
        partitions: tuple[int, ...],
        rank: int,
    ) -> None:
        self.id = state.id
        self.slots = state.slots
        self.models = state.models
        self.draining = state.draining
        self.lasting = lasting(state)
        self.claimed, self.owned = tuple(owned), owned
        self.partitions, self.rank = partitions, rank
        self.takes_work = bool(partitions) and not state.draining
        self._blocked = bool(state.blocked) or not partitions
        self.hear(state)

    def hear(self, state: NodeTold) -> None:
        """Take what changes from report to report."""
        self.said = state
        self.busy = state.busy
        self.slowness = state.slowness
        self.latency_ms = latency_ms = state.latency_ms
        normal, due, patient = state.queued
        self.passed = (normal + due + patient, due + patient, patient, 0)
        self._full_rate = self.slots / latency_ms * _MS_PER_S if latency_ms > 0 else inf

    def pace(self, finish_rate: float) -> None:
        """Take how many records a second it has finished lately."""
        self.busy_rate = min(finish_rate * _SPEED_UP, self._full_rate)

    def serves(self, model: str) -> bool:
        """Return whether it runs the model: a node that lists none runs any."""
        return not self.models or model in self.models

    def carry(self, unfinished: float, backlog: float) -> None:
        """Set its load in records, as finished at its usual rate, and at its busy rate.

        The second one tells queue from traffic: what waits, waits because all slots are busy, and
        busy slots finish more than the mean of the last seconds says. By that mean alone every
        short burst on a healthy node would look like a queue (docs/adr/0011).
        """
        self.unfinished = unfinished
        self.backlog = backlog
        # Comparisons, as calls of min() and max() cost twice as much, for every record routed.
        slots, busy = self.slots, self.busy
        queued = (backlog if backlog < unfinished else unfinished) - slots  # noqa: FURB136  see above
        self.queued = queued if queued > 0.0 else 0.0  # noqa: FURB136  see above
        load = unfinished if unfinished > busy else busy  # noqa: FURB136  see above
        self.free_slots = slots - load if load < slots and not self._blocked else 0
        if slots > 0:
            ahead = load - slots + 1
            self.wait_ms = wait_ms = ahead / slots * self.latency_ms if ahead > 0 else 0.0
            self.order = (wait_ms, load / slots)
        else:
            self.wait_ms = inf
            self.order = (inf, load)


class PoolView:
    """One pool: its partitions' estimates and its live nodes.

    Attributes:
        unfinished: estimated records by partition, both lanes together.
        live: its live nodes by id, in the snapshot's order, draining ones too.
        down: no live node, paused, or only draining nodes are left.
        queue_depth: records waiting at live nodes, and all on partitions without one.
        free_nodes: how many live nodes have a free slot.
        estimates: what runs take on its compute type.
        loads: how often it was loaded: what was computed from nodes' reports before is old.
    """

    __slots__ = (
        "_counts",
        "_finish_rates",
        "_orphans",
        "_owners",
        "_ranks",
        "compute_type",
        "cost_coefficient",
        "down",
        "estimates",
        "express",
        "free_nodes",
        "live",
        "loads",
        "name",
        "queue_depth",
        "unfinished",
    )

    def __init__(self, pool: Pool, router_id: str, partitions: int) -> None:
        self.name = pool.name
        self.compute_type = pool.compute_type
        self.express = pool.express
        self.cost_coefficient = pool.cost_coefficient
        self.estimates = Estimates(())
        self._ranks = [
            zlib.crc32(f"{router_id}/{pool.name}/{partition}".encode())
            for partition in range(partitions)
        ]
        self.loads, self.down = 0, True
        self._join([])
        self.load(None, (), {})

    def load(
        self,
        state: PoolTold | None,
        nodes: Iterable[NodeTold],
        own: Mapping[tuple[str, int], int],
        age_ms: float = 0.0,
    ) -> bool:
        """Replace what is believed, but for partitions that this view does not have.

        Returns whether it has changed who can take what.
        """
        self.loads += 1
        width = len(self._ranks)
        self._counts = counts = [0] * width
        self._finish_rates = rates = [0.0] * width
        if state is not None:
            for partition, reported in enumerate(state.partitions[:width]):
                counts[partition] = reported.unfinished
                rates[partition] = reported.finish_rate
        for (name, partition), records in own.items():
            if name == self.name and partition < width:
                counts[partition] += records
        told = [node for node in nodes if node.live]
        # From one snapshot to the next nodes nearly always last: what is made of them is kept.
        changed = len(told) != len(self.live) or any(
            [  # noqa: C419  a generator costs more than what it could save, for every snapshot
                lasting(now) != node.lasting
                for node, now in zip(self.live.values(), told, strict=True)
                if now is not node.said
            ]
        )
        if changed:
            self._join(told)
        for now in told:
            node = self.live[now.id]
            if now is not node.said:
                node.hear(now)
            node.pace(sum([rates[number] for number in node.claimed]))
        paused = state is not None and state.paused
        was_down, self.down = self.down, paused or all(n.draining for n in self.live.values())
        self.advance(age_ms)
        return changed or self.down != was_down

    def _join(self, nodes: list[NodeTold]) -> None:
        """Replace the live nodes."""
        self._owners: list[Node | None] = [None for _ in self._ranks]
        self.live = {node.id: self._own(node) for node in nodes}
        self._orphans = [number for number, owner in enumerate(self._owners) if owner is None]

    def _own(self, state: NodeTold) -> Node:
        owned = [partition for partition in state.partitions if partition < len(self._ranks)]
        open_ones = owned
        if state.blocked or len(owned) > 1:
            open_ones = sorted(
                (partition for partition in owned if partition not in state.blocked),
                key=self._ranks.__getitem__,
            )
        node = Node(state, owned, tuple(open_ones), self._ranks[open_ones[0]] if open_ones else 0)
        for partition in owned:
            rival = self._owners[partition]
            if rival is not None and rival is not node:
                rival.owned.remove(partition)
            self._owners[partition] = node
        return node

    def advance(self, age_ms: float) -> None:
        """Estimate what is unfinished, `age_ms` after the snapshot's counts were read.

        Of c records counted or routed since, c - min(c, finish rate x age) are left: without that
        subtraction a busy, healthy pool looks full.
        """
        counts, rates = self._counts, self._finish_rates
        self.unfinished = unfinished = [
            _left(count, rate, age_ms) if count else 0.0
            for count, rate in zip(counts, rates, strict=True)
        ]
        depth, self.free_nodes = 0.0, 0
        for node in self.live.values():
            usual, count = 0.0, 0
            for partition in node.owned:
                usual += unfinished[partition]
                count += counts[partition]
            node.carry(usual, _left(count, node.busy_rate, age_ms) if count else 0.0)
            depth += node.queued
            self.free_nodes += node.free_slots > 0
        for partition in self._orphans:
            depth += unfinished[partition]
        self.queue_depth = depth

    def add(self, partition: int) -> None:
        """Count one more record routed to the partition."""
        self._counts[partition] += 1
        self.unfinished[partition] += 1.0
        owner = self._owners[partition]
        if owner is None:
            self.queue_depth += 1.0
        else:
            queued, free = owner.queued, owner.free_slots
            owner.carry(owner.unfinished + 1.0, owner.backlog + 1.0)
            self.queue_depth += owner.queued - queued
            if free and not owner.free_slots:
                self.free_nodes -= 1

    @property
    def free_slots(self) -> float:
        """Return the free slots of the nodes that take work."""
        return sum(node.free_slots for node in self.live.values() if node.takes_work)

    @property
    def latency_ms(self) -> float:
        """Return the mean latency of the nodes that take work; 0 without any."""
        return mean_latency_ms([node for node in self.live.values() if node.takes_work])


def lasting(n: NodeTold) -> tuple[object, ...]:
    """Return what of a node does not change from report to report."""
    return n.id, n.pool, n.live, n.draining, n.slots, n.partitions, n.blocked, n.models, n.adapters


def _left(count: float, rate: float, age_ms: float) -> float:
    """Return count - min(count, rate x age), in whole grains; rate is a second's."""
    finished = int(rate * age_ms * _GRAINS_A_MS) / _GRAIN
    if finished <= 0:  # a what-if may state a count below 0, of which nothing is finished
        return float(count)
    left = count - finished
    return left if left > 0.0 else 0.0  # noqa: FURB136  see `Node.carry`


def mean_latency_ms(nodes: list[Node]) -> float:
    """Return the mean of the nodes' mean latencies; 0 without any.

    Added up one by one: `sum` rounds differently from Python 3.12 on, and a replay must not.
    """
    if not nodes:
        return 0.0
    return reduce(operator.add, [node.latency_ms for node in nodes]) / len(nodes)
