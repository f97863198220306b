"""Property tests draw the same cases on every run of one version, and never fail for being slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "overspill",
    deadline=None,  # machines are shared: time is judged in benchmarks only
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100,
)
settings.load_profile("overspill")
