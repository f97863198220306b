"""The self-test of a server's models, one after another.

Knows no server: a backend says how one model proves itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

from executors.backends.base import BackendError, SelfTest
from schemas.capability import Capability
from schemas.errors import BackendUnavailable


async def self_test_of(
    models: Iterable[str], prove: Callable[[str], Awaitable[Capability]], server: str
) -> SelfTest:
    """Return what each model has proven; raise BackendUnavailable, which names the one that fails.

    Args:
        models: by the names that the server knows.
        prove: asks one model and returns what that shows.
        server: where they are, for the reason.
    """
    proven, took_ms = [], 0.0
    for model in models:
        started = time.perf_counter()
        try:
            proven.append(await prove(model))
        except BackendError as failed:
            raise BackendUnavailable(
                f"the self-test of {model} at {server} failed: {failed}"
            ) from failed
        took_ms = max(took_ms, (time.perf_counter() - started) * 1000)
    return SelfTest(took_ms, tuple(proven))
