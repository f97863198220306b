"""The probe and the self-test of a server's models, one after another.

Knows no server: a backend says how one model proves itself.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection

from executors.backends.base import BackendError, SelfTest
from schemas.capability import Capability
from schemas.errors import BackendUnavailable


async def probe_of(
    models: Collection[str], ask: Callable[[str], Awaitable[None]], server: str
) -> float:
    """Return how long the slowest model took for one request, ms.

    Args:
        models: by the names that the server knows.
        ask: asks one model something small.
        server: where they are, for the reason.

    Raises:
        BackendUnavailable: one fails; it is named.
    """
    took_ms = 0.0
    for model in models:
        started = time.perf_counter()
        try:
            await ask(model)
        except BackendError as failed:
            raise BackendUnavailable(
                f"the probe of {model} at {server} failed: {failed}"
            ) from failed
        took_ms = max(took_ms, (time.perf_counter() - started) * 1000)
    return took_ms


async def self_test_of(
    models: Collection[str],
    ask: Callable[[str], Awaitable[None]],
    prove: Callable[[str], Awaitable[Capability]],
    server: str,
) -> SelfTest:
    """Probe each model, then return what each has proven.

    Args:
        models: by the names that the server knows.
        ask: asks one model something small.
        prove: asks one model its golden inputs and returns what that shows.
        server: where they are, for the reason.

    Raises:
        BackendUnavailable: one fails; it is named.
    """
    took_ms = await probe_of(models, ask, server)
    proven = []
    for model in models:
        try:
            proven.append(await prove(model))
        except BackendError as failed:
            raise BackendUnavailable(
                f"the self-test of {model} at {server} failed: {failed}"
            ) from failed
    return SelfTest(took_ms, tuple(proven))
