"""What is to say of pools, of nodes and of the fleet: down, slow, standing still, full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.control import NodeState
from schemas.pools import GPU
from streams.board.condition import Condition, many
from streams.board.seen import SLOW, PoolSeen, Seen

NODES_NAMED = 4
"""One by one; more of a pool that fare alike are told together, by the names of so many."""
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
            f"When it is over: `overspill pools resume {name}`",
        )
    if not seen.snapshot.nodes:
        return  # `of_fleet` says it of all together
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
            f"Start its nodes, or look at their logs: `overspill executor --pool {name}`",
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
            "Look at the engines behind its nodes. Which partition it is: `overspill status --lag`",
        )


def of_nodes(name: str, pool: PoolSeen, seen: Seen) -> Iterator[Condition]:
    """Yield what is to say of a pool's nodes; those of a pool that is down are named with it."""
    nodes = [node for node in seen.snapshot.nodes if node.pool == name]
    down = [node for node in nodes if not node.live and pool.nodes]
    slow = [node for node in nodes if node.live and node.slowness >= SLOW]
    if len(down) > NODES_NAMED:
        yield Condition(
            "warn",
            "OverspillNodeDown",
            f"{len(down)} nodes of {name} are down",
            f"{_why_dead(down)} The {pool.nodes} others take over their partitions within about "
            "6 s.",
            "Look for what they share: a host, an engine, a network. A restart is safe.",
            f"nodes of {name} are down",
        )
    else:
        yield from map(_down, down)
    if len(slow) > NODES_NAMED:
        yield Condition(
            "warn",
            "OverspillNodeSlow",
            f"{len(slow)} nodes of {name} are slow",
            f"Runs take {min(node.slowness for node in slow):.1f} times as long or more there as "
            f"on other nodes of their kind: {named(slow)}.",
            "Look for what they share: heat, neighbours, throttling. Give them less: "
            "`overspill nodes drain NODE --why slow`",
            f"nodes of {name} are slow",
        )
    else:
        yield from map(_slow, slow)


def named(nodes: Sequence[NodeState]) -> str:
    """Return the names of nodes, of many the first."""
    names = ", ".join(node.id for node in nodes[:NODES_NAMED])
    left = len(nodes) - NODES_NAMED
    return f"{names} and {left} more" if left > 0 else names


def _dead(pool: str, seen: Seen) -> str:
    """Return what is known of the nodes of a pool that is down."""
    nodes = [node for node in seen.snapshot.nodes if node.pool == pool]
    return _why_dead(nodes) if nodes else "No node has reported for ten minutes or more."


def _why_dead(nodes: Sequence[NodeState]) -> str:
    told = "; ".join(f"{node.id}: {node.reason or 'it said so'}" for node in nodes[:NODES_NAMED])
    more = f"; and {len(nodes) - NODES_NAMED} more" if len(nodes) > NODES_NAMED else ""
    return f"{told}{more}."


def _known(pool: str, seen: Seen) -> bool:
    return any(node.pool == pool for node in seen.snapshot.nodes)


def _down(node: NodeState) -> Condition:
    return Condition(
        "warn",
        "OverspillNodeDown",
        f"Node {node.id} ({node.pool}) is down",
        f"{node.reason or 'it said so'}. Other nodes of its pool take over its partitions "
        "within about 6 s.",
        "Look at its log and its engine; a restart is safe.",
    )


def _slow(node: NodeState) -> Condition:
    return Condition(
        "warn",
        "OverspillNodeSlow",
        f"Node {node.id} ({node.pool}) is slow",
        f"Runs take {node.slowness:.1f} times as long there as on other nodes of its kind. It "
        "is sent less, but what it has is late.",
        "Look at its device: heat, neighbours, throttling. Until it is well: "
        f"`overspill nodes drain {node.id} --why slow`",
    )


def of_fleet(seen: Seen) -> Iterator[Condition]:
    """Yield what is to say of all pools together."""
    working = [pool for pool in seen.pools.values() if pool.nodes]
    gpu, threshold = seen.pools[GPU], seen.snapshot.threshold
    if not seen.snapshot.nodes:
        yield _no_nodes(seen)
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
            "Restart that partition's node, and report it. Where it is: `overspill status --lag`",
            "hole",
        )


def _no_nodes(seen: Seen) -> Condition:
    waiting = sum(pool.unfinished for pool in seen.pools.values())
    return Condition(
        "bad",
        "OverspillPoolDown",
        "There are no nodes: nothing can run",
        "None has reported for ten minutes or more, in no pool. Requests may come all the same: "
        f"they wait until a node is there or they expire; {many(waiting, 'waits', 'wait')} now.",
        f"Start nodes, one pool at least: `overspill executor --pool {GPU}`",
    )
