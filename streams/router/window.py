"""The duplicate window of one input partition.

Pure. It is rebuilt from `decisions` when a partition changes hands, so nothing here may depend on
what only this process has seen.
"""

from __future__ import annotations

from collections import deque

Identity = tuple[str, int, int]
"""(request id, attempt, redrive generation)."""

WINDOW_REQUESTS = 20_000
WINDOW_MS = 10 * 60 * 1000
"""An id counts as seen while it is among the last 20,000 of its partition and ten minutes old."""


class DuplicateWindow:
    """Remembers which requests a partition has decided."""

    def __init__(self) -> None:
        self._seen: dict[Identity, tuple[int, int]] = {}
        self._order: deque[Identity] = deque()

    def claim(self, identity: Identity, digest: int, now_ms: int) -> int | None:
        """Remember a request to be decided now, unless it was decided before.

        Returns the value digest under which it was; None if it was not, or too long ago.
        """
        seen = self._seen.get(identity)
        if seen is not None:
            if now_ms - seen[1] <= WINDOW_MS:
                return seen[0]
            self._order.remove(identity)  # it begins anew
        self._seen[identity] = digest, now_ms
        self._order.append(identity)
        return None

    def forget_last(self, count: int) -> None:
        """Take back the last additions: their transaction was not committed."""
        for _ in range(count):
            del self._seen[self._order.pop()]

    def forget(self, identity: Identity) -> None:
        """Take back one addition, wherever it stands: the request was not decided after all."""
        del self._seen[identity]
        self._order.remove(identity)

    def trim(self, now_ms: int) -> None:
        """Drop what is out of the window; after a commit only, lest something be taken back."""
        while self._order and (
            len(self._order) > WINDOW_REQUESTS or now_ms - self._seen[self._order[0]][1] > WINDOW_MS
        ):
            del self._seen[self._order.popleft()]

    def __len__(self) -> int:
        return len(self._order)
