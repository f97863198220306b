"""What ninety-nine of a hundred measurements stay below.

Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile of two values or more; never beyond the largest."""
    return statistics.quantiles(values, n=100, method="inclusive")[98]
