"""The snapshot: made from the tables, compared with the one before, read as the policy reads it.

Pure. Queue depths and free slots are not computed here: they are what the policy's own view says of
the snapshot, so that a router, `status` and a metric never differ.
"""

from __future__ import annotations

import orjson

from schemas.control import NodeState, PartitionState, PoolState, Snapshot
from schemas.document import dumps
from schemas.message import encode
from schemas.orders import POOL
from schemas.pools import Pool
from streams.control.orders import OrderBook
from streams.control.rates import LagRow
from streams.control.speeds import NOTHING, Speeds
from streams.control.term import ThresholdRow
from streams.policy import View
from streams.policy.node import lasting
from streams.policy.told import SnapshotTold

NodeBytes = dict[str, tuple[NodeState, orjson.Fragment]]
"""The nodes of the last snapshot, encoded."""
HOLE_AFTER_MS = 30_000
"""Longer than a node holds a request outside its slots before it tries again (10 s)."""


def make_snapshot(
    row: LagRow,
    nodes: tuple[NodeState, ...],
    threshold: ThresholdRow,
    book: OrderBook,
    *,
    number: int,
    published_at_ms: int,
    speeds: Speeds = NOTHING,
) -> Snapshot:
    """Return the snapshot that the tables say."""
    sample = row.sample
    paused = {
        pool: order.in_words
        for pool in sample.pools
        if (order := book.standing.get(POOL + pool)) is not None
    }
    return Snapshot(
        number=number,
        generation=threshold.generation,
        probed_at_ms=sample.probed_at_ms,
        published_at_ms=published_at_ms,
        threshold=threshold.threshold,
        freeze=threshold.freeze,
        steering=threshold.steering,
        pools={
            pool: PoolState(
                paused=pool in paused,
                reason=paused.get(pool, ""),
                routed_total=sum(lag.routed for lag in lags),
                finished_total=sum(lag.finished for lag in lags),
                partitions=tuple(
                    PartitionState(unfinished=lag.unfinished, finish_rate=pace.finish_rate)
                    for lag, pace in zip(lags, row.paces[pool], strict=True)
                ),
            )
            for pool, lags in sample.pools.items()
        },
        nodes=nodes,
        service=dict(speeds.service),
        requests_included=sample.requests_included,
        retry_included=sample.retry_included,
        orders_included=book.read,
    )


def encode_snapshot(snapshot: Snapshot, memo: NodeBytes) -> bytes:
    """Return the snapshot's bytes; those of nodes that are the same are taken from the memo."""
    nodes = []
    for node in snapshot.nodes:
        known = memo.get(node.id)
        if known is None or known[0] is not node:
            known = memo[node.id] = node, orjson.Fragment(encode(node))
        nodes.append(known[1])
    if len(memo) > len(nodes):
        for gone in memo.keys() - {node.id for node in snapshot.nodes}:
            del memo[gone]
    document = snapshot.model_copy(update={"nodes": ()}).model_dump()
    document["nodes"] = nodes
    return dumps(document)


def news(before: Snapshot | None, now: Snapshot) -> bool:
    """Return whether routers should hear of this at once: a count, a node or an order has changed.

    Rates, latencies and busy slots drift all the time; they travel with the next snapshot.
    """
    return before is None or _counts(before) != _counts(now) or _changed(before.nodes, now.nodes)


def fleet_view(snapshot: SnapshotTold, pools: tuple[Pool, ...]) -> View:
    """Return the policy's view of the snapshot at the moment its counts were read."""
    widths = {
        pool.name: len(snapshot.pools[pool.name].partitions) if pool.name in snapshot.pools else 0
        for pool in pools
    }
    view = View(pools, "control", widths)
    view.load(snapshot, {})
    return view


def holes(row: LagRow, nodes: tuple[NodeState, ...]) -> int:
    """Return how many pool partitions have lag that nobody works on.

    Their owner lives and is idle, and neither count has moved for 30 s: records are lost, or counts
    are.
    """
    idle = {
        (node.pool, partition)
        for node in nodes
        if node.live and node.busy == 0
        for partition in node.partitions
        if partition not in node.blocked
    }
    return sum(
        lag.unfinished > 0 and pace.still_ms >= HOLE_AFTER_MS and (pool, partition) in idle
        for pool, lags in row.sample.pools.items()
        for partition, (lag, pace) in enumerate(zip(lags, row.paces[pool], strict=True))
    )


def _counts(snapshot: Snapshot) -> tuple[object, ...]:
    return (
        snapshot.threshold,
        snapshot.freeze,
        [(pool.routed_total, pool.finished_total) for pool in snapshot.pools.values()],
        snapshot.requests_included,
        snapshot.retry_included,
        snapshot.orders_included,
    )


def _changed(before: tuple[NodeState, ...], now: tuple[NodeState, ...]) -> bool:
    # Most nodes are the very same object as before.
    return len(before) != len(now) or any(
        a is not b and lasting(a) != lasting(b) for a, b in zip(before, now, strict=True)
    )
