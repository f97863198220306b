"""Whether the backend may be given work: judged by how runs end and, in doubt, by a probe.

Pure; time is an argument (monotonic seconds). Failures alone never make a node unhealthy, since
requests may be to blame: they raise doubt, and the probe decides.
"""

from __future__ import annotations

from executors.backends.base import Completion
from executors.latency import Latency
from executors.retry import Failure
from schemas.outcomes import ErrorCategory

FAILURES_IN_ROW = 3
"""One may be its request's fault and two a coincidence."""
OVERDUE_S = 20.0
"""A run is in doubt no sooner: an overbooked host has pauses of ten seconds."""
OVERDUE_TIMES = 5.0
"""And no sooner than after so many times what 99 of 100 runs took."""
TRUSTED_S = 10.0
"""A backend that has just passed a probe is not asked again because of the same long run."""
PROBE_FIRST_S, PROBE_MOST_S = 1.0, 30.0
"""Pause between probes of an unhealthy backend, doubled each time: half a minute is soon enough
for what has been away for a minute."""

_ENGINE_AT_FAULT = (ErrorCategory.UNAVAILABLE, ErrorCategory.BACKEND_ERROR)


class Breaker:
    """The state of one backend.

    Attributes:
        successes: runs that ended well; a probe that times out meanwhile only waited its turn.
    """

    def __init__(self) -> None:
        self.successes = 0
        self._failures = 0
        self._hanging = 0
        self._failed_probe: str | None = None
        self._probe_at_s: float | None = None
        self._pause_s = PROBE_FIRST_S
        self._trusted_until_s = 0.0

    @property
    def unhealthy(self) -> str | None:
        """Return why no work may be given to the backend; None if it may."""
        if self._hanging:
            return (
                f"{self._hanging} calls hang in the engine, cancelled without effect; "
                "restart this node if that lasts"
            )
        return self._failed_probe

    def ran(self, ending: Completion | Failure | None, now_s: float) -> None:
        """Take note of how a run ended."""
        if isinstance(ending, Completion):
            self.successes += 1
        if isinstance(ending, Failure) and ending.category in _ENGINE_AT_FAULT:
            self._failures += 1
            if self._failures >= FAILURES_IN_ROW:
                self._doubt(now_s)
        elif ending is not None:  # even a refusal is an answer
            self._failures = 0

    def looked(self, longest_run_s: float, usual: Latency, hanging: int, now_s: float) -> None:
        """Take note of how long the oldest run has taken, and of calls that do not end."""
        self._hanging = hanging
        usual_s = (usual.p99_ms or usual.mean_ms) / 1000
        if longest_run_s > max(OVERDUE_S, OVERDUE_TIMES * usual_s):
            self._doubt(now_s)

    def probe_is_due(self, now_s: float) -> bool:
        """Return whether to probe now."""
        return self._probe_at_s is not None and now_s >= self._probe_at_s

    def probed(self, why_not: str | None, now_s: float) -> None:
        """Take note of a probe: why it failed, None if it passed."""
        self._failed_probe = why_not
        if why_not is None:
            self._failures, self._probe_at_s, self._pause_s = 0, None, PROBE_FIRST_S
            self._trusted_until_s = now_s + TRUSTED_S
        else:
            self._probe_at_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, PROBE_MOST_S)

    def _doubt(self, now_s: float) -> None:
        if self._probe_at_s is None and now_s >= self._trusted_until_s:
            self._probe_at_s = now_s
