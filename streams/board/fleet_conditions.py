"""What is to say of pools, of nodes and of the fleet: down, slow, standing still, full."""

from __future__ import annotations

from collections.abc import Iterator

from schemas.control import NodeState
from schemas.pools import GPU
from streams.board.condition import Condition, many
from streams.board.seen import SLOW, PoolSeen, Seen

NODES_NAMED = 4
"""Of a pool that is down."""
STANDING_S = 30.0
"""Nothing finished while the oldest record waits for longer than this."""


def of_pool(name: str, pool: PoolSeen, seen: Seen) -> Iterator[Condition]:
    """Yield what is to say of one pool."""
    state, line = seen.snapshot.pools[name], pool.line
    if state.paused:
        yield Condition(
            "note",
            "",
            f"Pool {name} is paused",
            f"{state.reason}. Nothing new is sent there; what it has is finished.",
            f"When it is over: overspill pools resume {name}",
        )
    if not pool.nodes and name != GPU and not pool.unfinished and not _known(name, seen):
        yield Condition(
            "note", "", f"Pool {name} has no node", "None has reported for ten minutes or more."
        )
    elif not pool.nodes:
        waits = (
            "Realtime and strict work waits for it; other work goes to cheaper pools with free "
            "slots"
            if name == GPU
            else "Its work goes to other pools"
        )
        yield Condition(
            "bad",
            "OverspillPoolDown",
            f"Pool {name} is down: none of its nodes is alive",
            f"{waits}. {pool.unfinished:,} records wait there. {_dead(name, seen)}",
            f"Start its nodes (overspill executor --pool {name}), or look at their logs.",
        )
    elif (
        line is not None
        and pool.unfinished
        and not line.finish_rate
        and (line.oldest_age_s or 0.0) > STANDING_S
    ):
        yield Condition(
            "bad",
            "OverspillConsumerStalled",
            f"Pool {name} stands still",
            f"{pool.unfinished:,} records are unfinished, the oldest for "
            f"{line.oldest_age_s:.0f} s, and nothing is being finished though nodes are alive.",
            "Look at the engines behind its nodes; overspill status --lag shows which partition.",
        )


def _dead(pool: str, seen: Seen) -> str:
    """Return what is known of the nodes of a pool that is down."""
    nodes = [node for node in seen.snapshot.nodes if node.pool == pool]
    told = "; ".join(f"{node.id}: {node.reason or 'it said so'}" for node in nodes[:NODES_NAMED])
    more = f"; and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"{told}{more}." if nodes else "No node has reported for ten minutes or more."


def _known(pool: str, seen: Seen) -> bool:
    return any(node.pool == pool for node in seen.snapshot.nodes)


def of_node(node: NodeState, seen: Seen) -> Iterator[Condition]:
    """Yield what is to say of one node; those of a pool that is down are named with their pool."""
    pool = seen.pools.get(node.pool)
    if not node.live and pool is not None and pool.nodes:
        yield Condition(
            "warn",
            "OverspillNodeDown",
            f"Node {node.id} ({node.pool}) is down",
            f"{node.reason or 'it said so'}. Other nodes of its pool take over its partitions "
            "within about 6 s.",
            "Look at its log and its engine; a restart is safe.",
        )
    elif node.live and node.slowness >= SLOW:
        yield Condition(
            "warn",
            "OverspillNodeSlow",
            f"Node {node.id} ({node.pool}) is slow",
            f"Runs take {node.slowness:.1f} times as long there as on other nodes of its kind. It "
            "is sent less, but what it has is late.",
            f"overspill nodes drain {node.id} --why slow, then look at its device: heat, "
            "neighbours, throttling.",
        )


def of_fleet(seen: Seen) -> Iterator[Condition]:
    """Yield what is to say of all pools together."""
    working = [pool for pool in seen.pools.values() if pool.nodes]
    gpu, threshold = seen.pools[GPU], seen.snapshot.threshold
    if working and all(p.free_slots <= 0 for p in working) and gpu.queue_depth >= threshold:
        yield Condition(
            "bad",
            "OverspillSaturated",
            "The fleet is full",
            f"No pool has a free slot, and the queue of gpu is {gpu.queue_depth:g}: more arrives "
            "than all nodes together can do, so requests wait.",
            "Add nodes to the cheapest pool that meets objectives, or have producers send less.",
        )
    elif gpu.nodes and gpu.queue_depth >= threshold:
        yield Condition(
            "note",
            "",
            "Work overflows",
            f"The queue of gpu is {gpu.queue_depth:g}, at or above the threshold of {threshold}: "
            "work goes to cheaper pools with free slots, as meant.",
        )
    if seen.holes:
        yield Condition(
            "bad",
            "OverspillHole",
            f"A hole in the count of {many(seen.holes, 'partition', 'partitions')}",
            "Records count as unfinished, nobody works on them, and nothing has moved for 30 s.",
            "overspill status --lag shows where; restart that partition's node, and report it.",
        )
