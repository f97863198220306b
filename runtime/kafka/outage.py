"""An outage in two log lines: when something begins to fail, and when it works again.

What tries ten times a second would otherwise say so ten times a second. Knows nothing of what it
is that fails.
"""

from __future__ import annotations

import logging
import time


class Outage:
    """Keeps whether one activity, as `fetching from broker 1`, is failing."""

    def __init__(self, log: logging.Logger, activity: str) -> None:
        self._log = log
        self._activity = activity
        self._since_s: float | None = None

    def failed(self, why: object) -> None:
        """Take note of a try that failed; the first one is logged."""
        if self._since_s is None:
            self._since_s = time.monotonic()
            self._log.warning("%s fails, trying until it works: %s", self._activity, why)

    def over(self) -> None:
        """Take note of a try that went well; the first one after a failure is logged."""
        if self._since_s is not None:
            lasted_s = time.monotonic() - self._since_s
            self._since_s = None
            self._log.info("%s works again, after %.0f s", self._activity, lasted_s)
