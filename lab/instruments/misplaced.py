"""Was there a better node? A recount of every placement, at the moment it was committed.

Pure: what was routed and when it finished in, judgement out. A request counts on its node from the
commit that routed it until its run ended; one was misplaced if at its own commit its node had no
free slot and another node of the pool had one. What each router knew plays no part here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Placement(NamedTuple):
    """One request as it was routed and run; times are epoch ms.

    Attributes:
        decided_ms: when the router decided.
        committed_ms: when its transaction made that visible.
        finished_ms: when its run ended.
        age_ms: of the counts it was decided by, as the decision says.
    """

    id: str
    node: str
    decided_ms: int
    committed_ms: int
    finished_ms: float
    age_ms: float


def misplaced(placements: Iterable[Placement], nodes: Iterable[str], slots: int) -> list[Placement]:
    """Return the placements for which there was a better node."""
    running: dict[str, list[float]] = {node: [] for node in nodes}
    found = []
    # Within a transaction the earlier decision counts for the later one, as it did for the router.
    for placement in sorted(placements, key=lambda p: (p.committed_ms, p.decided_ms)):
        for ends in running.values():
            while ends and ends[0] <= placement.committed_ms:
                heapq.heappop(ends)
        full = len(running[placement.node]) >= slots
        if full and any(len(ends) < slots for ends in running.values()):
            found.append(placement)
        heapq.heappush(running[placement.node], placement.finished_ms)
    return found
