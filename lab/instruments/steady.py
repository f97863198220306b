"""How fast a run goes once it is under way. Pure: whoever runs says what is done by when."""

from __future__ import annotations

WARM_UP_ONE_IN = 4
"""The first quarter of the records does not count: connections are made, partitions assigned, code
is new; and the records of several transactions end with the first one."""


class Steady:
    """Measures the rest of a run of `records` records.

    Attributes:
        done: how many are.
    """

    def __init__(self, records: int) -> None:
        self.done = 0
        self._records = records
        self._begun: tuple[int, float] | None = None
        self._last_s = 0.0

    def has_done(self, done: int, now_s: float) -> None:
        """Take how many records are done by now."""
        self.done, self._last_s = done, now_s
        if self._begun is None and done * WARM_UP_ONE_IN >= self._records:
            self._begun = done, now_s

    @property
    def complete(self) -> bool:
        """Return whether all are done."""
        return self.done >= self._records

    def per_s(self) -> float:
        """Return the records a second since the warm-up; raise ValueError if nothing came after."""
        if self._begun is None or self._begun[0] == self.done:
            raise ValueError(f"nothing to measure after {self.done} of {self._records} records")
        done, begun_s = self._begun
        return (self.done - done) / (self._last_s - begun_s)
