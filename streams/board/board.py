"""The board's state: what was seen last, the counts, the last ten minutes, and what is in the way.

Pure: fed by whoever sees and reads, with the time; it does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schemas.decisions import Decided
from schemas.pools import ComputeType, Pool
from schemas.service import ServiceTime
from streams.board.history import History, Point
from streams.board.seen import Seen
from streams.board.spells import Spells
from streams.board.tally import Cost, Tally
from streams.policy.estimates import Estimates

SEEN_FOR_S = 3.0
"""What was seen longer ago is not shown: the worker does not speak, or something hangs."""


class Board:
    """What one control worker shows.

    Attributes:
        pools: as configured.
        tally: counts since `since_ms`.
        history: the last ten minutes.
        spells: since when each condition is there.
        ends: of the partitions of `requests`, as last read.
        kafka_away_s: since when no broker answers, on the monotonic clock; None while one does.
        trouble: returns why the worker neither speaks nor stands by.
    """

    def __init__(self, pools: tuple[Pool, ...], now_ms: int) -> None:
        self.pools = pools
        self.tally = Tally(pools)
        self.history = History()
        self.spells = Spells()
        self.since_ms = now_ms
        self.ends: Sequence[int] = ()
        self.kafka_away_s: float | None = None
        self.trouble: Callable[[], str | None] = lambda: "starting"
        self._seen: Seen | None = None
        self._seen_s = float("-inf")
        self._speeds: dict[ComputeType, Estimates] = {}

    def see(self, seen: Seen, now_s: float) -> None:
        """Take what the worker has just seen."""
        self._seen, self._seen_s = seen, now_s
        for report in seen.reports:
            self.tally.reported(report.node, report.totals)
        self.tally.gone(frozenset(report.node for report in seen.reports))
        for kind, told in seen.snapshot.service.items():
            self._speeds[kind] = _kept(self._speeds.get(kind), told)

    def silent(self) -> None:
        """Know that the worker does not speak: what it saw is not shown."""
        self._seen = None
        self._speeds = {}

    def seen(self, now_s: float) -> Seen | None:
        """Return what was seen last; None if that says nothing of now."""
        return self._seen if now_s - self._seen_s <= SEEN_FOR_S else None

    def sees_fleet(self, now_s: float) -> bool:
        """Return whether what there is to say now is said of the fleet, not of this worker."""
        return self.kafka_away_s is None and self.seen(now_s) is not None

    def decided(self, record: Decided, now_s: float) -> Cost:
        """Count a record of decisions; return the cost expected of what it routed."""
        return self.tally.decided(record, self._speeds, now_s)

    def remember(self, now_ms: int, now_s: float) -> None:
        """Add a point to the history if it is time; called about once a second."""
        if not self.history.due(now_ms):
            return
        seen = self.seen(now_s)
        depths = {} if seen is None else {n: pool.queue_depth for n, pool in seen.pools.items()}
        threshold = None if seen is None else seen.snapshot.threshold
        self.history.points.append(Point(now_ms, threshold, depths, self.tally.counts.copy()))


def _kept(known: Estimates | None, told: tuple[ServiceTime, ...]) -> Estimates:
    """Return the estimates of what is told: those known where it is what was told before."""
    return known if known is not None and known.told == told else Estimates(told)
