"""Real answers at the speed of made-up hardware: a backend slowed down to a profile.

For a laptop that stands in for a fleet. The text is true, the device is not, and the info says so.
"""

from __future__ import annotations

import asyncio
import time

from executors.backends.base import Backend, BackendInfo, Call, Completion, Load, SelfTest
from executors.backends.emulated import SELF_TEST_TOKENS
from executors.backends.profile import Profile, chance_of


class Paced:
    """Runs each call on another backend, and ends it no sooner than the profile says."""

    def __init__(self, inner: Backend, profile: Profile, device: str) -> None:
        self._inner = inner
        self._profile = profile
        self._device = device
        self._at_once = 0

    @property
    def info(self) -> BackendInfo:
        """Return the inner backend's, with the device it stands in for, marked emulated."""
        return self._inner.info._replace(device=self._device, emulated=True)

    async def start(self) -> None:
        """Load the model, no sooner than the profile says."""
        await asyncio.gather(self._inner.start(), asyncio.sleep(self._profile.load_s))

    async def self_test(self) -> SelfTest:
        """Test the inner backend; tell the profile's time, or the true one if that is longer."""
        true = await self._inner.self_test()
        profile_ms = self._profile.run_ms(SELF_TEST_TOKENS, SELF_TEST_TOKENS, 1, 0.5)
        return true._replace(took_ms=max(true.took_ms, profile_ms))

    async def probe(self) -> None:
        """Probe the inner backend."""
        await self._inner.probe()

    async def infer(self, call: Call) -> Completion:
        """Run the call, then wait for what is left of its emulated time."""
        started = time.perf_counter()
        self._at_once += 1
        at_once = self._at_once
        try:
            completion = await self._inner.infer(call)
            usage = completion.usage or {}
            run_ms = self._profile.run_ms(
                usage.get("prompt_tokens", 0),
                usage.get("completion_tokens", 0),
                at_once,
                chance_of(call.request_id),
            )
            await asyncio.sleep(max(0.0, started + run_ms / 1000 - time.perf_counter()))
        finally:
            self._at_once -= 1
        return completion

    async def load(self) -> Load | None:
        """Return the inner backend's."""
        return await self._inner.load()

    async def close(self) -> None:
        """Close the inner backend."""
        await self._inner.close()
