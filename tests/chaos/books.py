"""The books of a run: each count that the system keeps, beside the records it counted.

Pure. Promise 1 is about ends; these lines show as well that the numbers by which people and routers
steer are true after every fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from schemas.metadata import FinishedCounts, RouterCounts
from tests.chaos.oracle import Entry

Place = tuple[str, int]
"""A topic by its name without prefix, and a partition."""


def entries(
    routers: Mapping[Place, RouterCounts],
    nodes: Mapping[Place, FinishedCounts],
    records: Mapping[Place, int],
    endings: Counter[str],
) -> Iterable[Entry]:
    """Yield every line of the books.

    Args:
        routers: counts of each partition of `requests` and `retry`.
        nodes: counts of each pool partition.
        records: how many records each partition of those topics holds.
        endings: how many records are dead letters (`dead`), expired results (`expired`), unroutable
            ones (`unroutable`), repeats by `decisions` (`duplicate`), and rows of `decisions`
            (`decided`).
    """
    routed: Counter[Place] = Counter()
    for (topic, partition), counts in routers.items():
        became = sum(map(sum, counts.routed.values())) + sum(
            (counts.dead, counts.expired, counts.unroutable, counts.duplicate)
        )
        where = f"{topic}-{partition}"
        yield Entry(f"{where} consumed = routed + the rest", counts.consumed, became)
        yield Entry(f"{where} consumed", counts.consumed, records[topic, partition])
        for pool, numbers in counts.routed.items():
            routed.update({(pool, number): count for number, count in enumerate(numbers)})
    for place in sorted(nodes.keys() | routed.keys()):
        topic, partition = place
        finished = nodes.get(place, FinishedCounts(finished=0, frontier=0))
        yield Entry(f"{topic}-{partition} routed", routed[place], records[place])
        yield Entry(f"{topic}-{partition} finished", finished.finished, records[place])
        yield Entry(f"{topic}-{partition} unfinished", len(finished.unfinished), 0)
    totals = {
        "dead": _sum(routers, "dead") + _sum(nodes, "dead"),
        "expired": _sum(routers, "expired") + _sum(nodes, "expired"),
        "unroutable": _sum(routers, "unroutable"),
        "duplicate": _sum(routers, "duplicate"),
        "decided": _sum(routers, "consumed"),
    }
    for name, counted in totals.items():
        yield Entry(name, counted, endings[name])


def _sum(counts: Mapping[Place, RouterCounts] | Mapping[Place, FinishedCounts], name: str) -> int:
    return sum(getattr(one, name) for one in counts.values())
