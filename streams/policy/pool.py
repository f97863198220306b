"""PoolView: what a router believes of one pool between two snapshots, its queue and its live nodes.

Loads change in place, one record at a time, so that a decision never recounts the fleet. Estimates
are multiples of 1/1024 record: their sums are exact in any order, hence a view that was kept up to
date equals one that was rebuilt, bit for bit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from schemas.pools import Pool
from streams.policy.estimates import Estimates
from streams.policy.node import Node, lasting, mean_latency_ms
from streams.policy.told import NodeTold, PoolTold

_GRAIN = 1024
"""Estimates count in 1/1024 record: a power of two, so binary fractions hold them exactly."""
_GRAINS_A_MS = _GRAIN / 1000
"""Of a rate of one record a second."""


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


def _left(count: float, rate: float, age_ms: float) -> float:
    """Return count - min(count, rate x age), in whole grains; rate is a second's."""
    finished = int(rate * age_ms * _GRAINS_A_MS) / _GRAIN
    if finished <= 0:  # a what-if may state a count below 0, of which nothing is finished
        return float(count)
    left = count - finished
    return left if left > 0.0 else 0.0  # noqa: FURB136  see `Node.carry`
