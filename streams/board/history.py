"""The last ten minutes: a point every two seconds, for charts and for what was counted lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from streams.board.tally import Counts

EVERY_MS = 2_000
KEPT_MS = 600_000


class Point(NamedTuple):
    """One moment.

    Attributes:
        depths: queue depth by pool; empty where nothing was known.
    """

    at_ms: int
    threshold: int | None
    depths: Mapping[str, float]
    counts: Counts


class History:
    """Points of the last ten minutes, the oldest first."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=KEPT_MS // EVERY_MS + 1)

    def due(self, now_ms: int) -> bool:
        """Return whether it is time for a point."""
        return not self.points or now_ms - self.points[-1].at_ms >= EVERY_MS

    def before(self, now_ms: int, window_ms: int) -> Point | None:
        """Return the oldest point within the window; None without any."""
        return next((p for p in self.points if p.at_ms >= now_ms - window_ms), None)
