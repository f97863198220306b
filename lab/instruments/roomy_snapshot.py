"""A made-up snapshot of a fleet with room, for routers that run without a control plane."""

from __future__ import annotations

import time

from runtime.settings import Settings
from schemas.control import NodeState, PartitionState, PoolState, Snapshot
from schemas.topics import EMBEDDED_PARTITIONS

NODES_PER_POOL = 8
SLOTS = 8


def roomy_snapshot(settings: Settings) -> Snapshot:
    """Return a fleet with room, so that rules up to the ninth are in play."""
    now_ms = int(time.time() * 1000)
    partitions = range(EMBEDDED_PARTITIONS)
    nodes = tuple(
        NodeState(
            id=f"{pool.name}-{number}",
            pool=pool.name,
            live=True,
            slots=SLOTS,
            partitions=tuple(p for p in partitions if p % NODES_PER_POOL == number),
            latency_ms=50.0,
        )
        for pool in settings.pools
        for number in range(NODES_PER_POOL)
    )
    state = PoolState(
        routed_total=0,
        finished_total=0,
        partitions=tuple(PartitionState(unfinished=0, finish_rate=100.0) for _ in partitions),
    )
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=now_ms,
        published_at_ms=now_ms,
        threshold=10,
        pools={pool.name: state for pool in settings.pools},
        nodes=nodes,
        requests_included=(-1,) * EMBEDDED_PARTITIONS,
        retry_included=(-1,) * EMBEDDED_PARTITIONS,
    )
