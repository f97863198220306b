"""What the speaking worker sees once a second: the snapshot, and all that is computed from it.

Metrics and the board are set from this one value, so that they never differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.control import NodeReport, Snapshot
from schemas.pools import Pool
from streams.control.lag_table import LagLine, LagTable
from streams.control.rates import LagRow
from streams.control.snapshot import fleet_view, holes

SLOW = 2.0
"""Times as long as on other nodes: beyond what batching and neighbours explain."""


class PoolSeen(NamedTuple):
    """One pool.

    Attributes:
        nodes: that live; down: that do not and said no good-bye.
        slow: of those that live.
        line: None before the first sample.
    """

    unfinished: int
    queue_depth: int
    slots: int
    free_slots: int
    nodes: int
    down: int
    slow: int
    line: LagLine | None


class Seen(NamedTuple):
    """One look at everything.

    Attributes:
        undecided: records of `requests` that no router has committed, None while not known.
        node_lines: of live nodes, by id.
    """

    snapshot: Snapshot
    pools: Mapping[str, PoolSeen]
    node_lines: Mapping[str, LagLine]
    holes: int
    undecided: int | None
    reports: tuple[NodeReport, ...]


def look(
    snapshot: Snapshot,
    row: LagRow | None,
    reports: Iterable[NodeReport],
    pools: tuple[Pool, ...],
    ends: Sequence[int],
) -> Seen:
    """Return what is seen.

    Args:
        snapshot: about to be published.
        row: of the lag table.
        reports: the last one of each node.
        pools: as configured.
        ends: of the partitions of `requests`; empty while not known.
    """
    lines: Mapping[str, LagLine] = {}
    node_lines: Mapping[str, LagLine] = {}
    if row is not None:
        table = LagTable(row.sample, row.paces, snapshot.nodes, snapshot.published_at_ms)
        lines, node_lines = table.pools(), table.nodes()
    view = fleet_view(snapshot, pools)
    found = {}
    for pool in pools:
        seen = view.pool(pool.name)
        known = [node for node in snapshot.nodes if node.pool == pool.name]
        live = [node for node in known if node.live]
        found[pool.name] = PoolSeen(
            unfinished=round(math.fsum(seen.unfinished)),
            queue_depth=int(seen.queue_depth),
            slots=sum(node.slots for node in live),
            free_slots=int(seen.free_slots),
            nodes=len(live),
            down=len(known) - len(live),
            slow=sum(node.slowness >= SLOW for node in live),
            line=lines.get(pool.name),
        )
    return Seen(
        snapshot,
        found,
        node_lines,
        0 if row is None else holes(row, snapshot.nodes),
        _undecided(snapshot.requests_included, ends),
        tuple(reports),
    )


def _undecided(included: Sequence[int], ends: Sequence[int]) -> int | None:
    if not ends or len(included) < len(ends):
        return None
    return sum(max(0, end - max(0, to)) for end, to in zip(ends, included, strict=False))
