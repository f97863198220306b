"""What it saves to start requests grouped by LoRA adapter: the executor's heap before llama.cpp.

The engine computes only requests of one adapter together. The same requests, adapters in turn, are
started as they came and as the heap groups them, round by round on one engine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from executors.backends.base import Call
from executors.backends.llama import Llama
from executors.heap import Heap, Urgency

REQUESTS = 96
"""32 of each of three adapters: what the heap starts of one before another's turn."""
TOKENS = 32
SLOTS = 8
ROUNDS = 3
NEVER_MS = 1e15
_PAYLOAD = {
    "prompt": "The with statement", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True
}  # fmt: skip


class Speed(NamedTuple):
    """Tokens a second, and a second of the processor, which other work on the host hardly moves."""

    per_s: float
    per_cpu_s: float


class LoraGain(NamedTuple):
    """What was measured, round by round."""

    requests: int
    tokens: int
    slots: int
    adapters: int
    interleaved: tuple[Speed, ...]
    grouped: tuple[Speed, ...]

    @property
    def by_clock(self) -> float:
        """Return how many times as fast grouped requests were, median of the rounds."""
        return _ratio([one.per_s for one in self.grouped], [one.per_s for one in self.interleaved])

    @property
    def by_cpu(self) -> float:
        """Return how many times as much a second of the processor did."""
        return _ratio(
            [one.per_cpu_s for one in self.grouped], [one.per_cpu_s for one in self.interleaved]
        )


async def bench_lora(
    model: str, path: Path, adapters: Mapping[str, Path], rounds: int = ROUNDS
) -> LoraGain:
    """Return the gain for requests that name the adapters in turn; raise BackendUnavailable."""
    engine = Llama(
        model, path, adapters=adapters, slots=SLOTS, context_tokens=2 * TOKENS, threads=1
    )
    await engine.start()
    interleaved, grouped = [], []
    try:
        await _run(engine, model, list(adapters), grouping=False)  # the first pays for what is cold
        for _ in range(rounds):
            interleaved.append(await _run(engine, model, list(adapters), grouping=False))
            grouped.append(await _run(engine, model, list(adapters), grouping=True))
    finally:
        await engine.close()
    return LoraGain(REQUESTS, TOKENS, SLOTS, len(adapters), tuple(interleaved), tuple(grouped))


async def _run(engine: Llama, model: str, adapters: Sequence[str], *, grouping: bool) -> Speed:
    heap: Heap[str] = Heap()
    for number in range(REQUESTS):
        adapter = adapters[number % len(adapters)]
        heap.push(
            adapter,
            Urgency.BATCH,
            deadline_ms=NEVER_MS,
            expires_at_ms=NEVER_MS,
            now_ms=0.0,
            group=adapter if grouping else None,
        )

    async def slot() -> None:
        while (waiting := heap.pop(0.0)) is not None:
            await engine.infer(Call("bench", model, waiting.item, _PAYLOAD))

    started, started_cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(slot() for _ in range(SLOTS)))
    tokens = REQUESTS * TOKENS
    return Speed(
        tokens / (time.perf_counter() - started), tokens / (time.process_time() - started_cpu)
    )


def _ratio(ones: Sequence[float], others: Sequence[float]) -> float:
    return statistics.median(ones) / statistics.median(others)
