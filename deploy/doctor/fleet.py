"""The fleet by its own word: the last snapshot against the partitions, and everybody's clocks.

Pure: how the records are read is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deploy.doctor.finding import Finding, bad, odd, well
from schemas.control import NodeState, PoolState, Snapshot
from streams.board.condition import many

SILENT_S = 5.0
"""Control publishes twice a second, and routers call 2 s without it stale."""
SKEW_ODD_S, SKEW_BAD_S = 1.0, 60.0
"""A record is up to 0.5 s old when it is read. Latencies across hosts are wrong by the skew; beyond
five minutes a caller's `arrived_at` is not believed."""


def judge_fleet(snapshot: Snapshot | None, now_ms: float) -> Iterator[Finding]:
    """Yield what the control plane's last word shows; None if it never spoke."""
    if snapshot is None:
        yield bad("control", "no snapshot: routers decide blind", "start `overspill control`")
        return
    silent_s = (now_ms - snapshot.published_at_ms) / 1000
    if silent_s > SILENT_S:
        yield bad(
            "control",
            f"silent for {silent_s:.0f} s: routers decide on an old snapshot",
            "start `overspill control`, or see its log and /readyz",
        )
        return
    yield well("control", f"speaks, generation {snapshot.generation}")
    for name, pool in sorted(snapshot.pools.items()):
        yield from _judge_pool(name, pool, [n for n in snapshot.nodes if n.pool == name])


def judge_clocks(ages_s: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what the records just read show of clocks: by who wrote one, its age when read."""
    if not ages_s:
        yield odd("clocks", "nobody spoke while we listened", "start the roles, then look again")
        return
    skewed = {name: age for name, age in ages_s.items() if abs(age) > SKEW_ODD_S}
    for name, age_s in sorted(skewed.items()):
        told = bad if abs(age_s) > SKEW_BAD_S else odd
        way = "behind" if age_s > 0 else "ahead of"
        yield told(
            "clocks",
            f"{name} is {abs(age_s):.1f} s {way} this machine",
            "keep time on both hosts (chrony, systemd-timesyncd)",
        )
    if not skewed:
        yield well("clocks", f"{len(ages_s)} writers within {SKEW_ODD_S:g} s of this machine")


def _judge_pool(name: str, pool: PoolState, nodes: list[NodeState]) -> Iterator[Finding]:
    about, partitions = f"pool {name}", len(pool.partitions)
    live = [node for node in nodes if node.live]
    for node in nodes:
        if not node.live:
            cure = "see its log; `overspill doctor --backend` on its host tries its backend"
            yield bad(about, f"node {node.id}: {node.reason or 'not live'}", cure)
    if not live:
        waiting = sum(partition.unfinished for partition in pool.partitions)
        cure = f"start `overspill executor --pool {name}`, or take the pool out of the settings"
        yield bad(about, f"no live node, {waiting} records wait", cure)
        return
    if pool.paused:
        yield odd(about, f"paused: {pool.reason}", f"`overspill pools resume {name}`")
    if len(live) > partitions:
        idle = len(live) - partitions
        cure = f"`overspill topics grow --partitions {len(live)}`, or stop {idle}"
        yield odd(about, f"{len(live)} nodes for {partitions} partitions: {idle} idle", cure)
    owned = {number for node in live for number in node.partitions}
    if missing := partitions - len(owned):
        cure = "if it lasts more than 10 s: see the nodes' logs"
        yield odd(about, f"{missing} of {partitions} partitions have no live owner", cure)
    slots = sum(node.slots for node in live)
    counted = (
        many(len(live), "live node", "live nodes"),
        many(slots, "slot", "slots"),
        many(partitions, "partition", "partitions"),
    )
    yield well(about, ", ".join(counted))
