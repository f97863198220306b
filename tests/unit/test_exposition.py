"""/metrics shows what docs/metrics.md lists, and no series beside it."""

from __future__ import annotations

from runtime.metrics import Metrics
from schemas.metrics import router as declared


def test_no_series_tells_when_another_began() -> None:
    metrics = Metrics("router", "1")
    metrics.counter(declared.DUPLICATES).inc()
    metrics.histogram(declared.BATCH_RECORDS).observe(1)
    shown = metrics.exposition().decode()
    assert "overspill_router_duplicates_total 1.0" in shown
    assert "_created" not in shown
