"""Makes the sample traces of the repository: made-up requests in the columns of the public ones.

`make generate` writes them, so that they can be shipped and regenerated; nothing in them was ever
asked by anybody. Sizes and times are roughly those of chat traffic, with a burst in the middle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from schemas.document import to_json

SEED = 7
REQUESTS = 400
RATE_PER_S = 6.0
BURST = (150, 270)
"""Requests of the burst, by number; they come three times as fast."""
BURST_FACTOR = 3.0
TURN_SHARE = 0.4
"""Of requests: the next turn of a conversation that is still open."""
BLOCK_TOKENS = 512
OPEN_MAX = 30
"""Conversations that may go on at a time."""
SYSTEM_PROMPT = 0
"""The block that all prompts begin with."""


class _Made(NamedTuple):
    at_ms: int
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]


def azure_sample() -> str:
    """Return the sample as Azure's CSV."""
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for made in _requests():
        minutes, ms = divmod(made.at_ms, 60_000)
        at = f"2000-01-01 00:{minutes:02d}:{ms // 1000:02d}.{ms % 1000:03d}0000"
        rows.append(f"{at},{made.prompt_tokens},{made.output_tokens}")
    return "\n".join(rows) + "\n"


def mooncake_sample() -> str:
    """Return the sample as Mooncake's JSON lines."""
    lines = [
        to_json(
            {
                "timestamp": made.at_ms,
                "input_length": made.prompt_tokens,
                "output_length": made.output_tokens,
                "hash_ids": made.blocks,
            }
        ).decode()
        for made in _requests()
    ]
    return "\n".join(lines) + "\n"


def _requests() -> Iterator[_Made]:
    draw = random.Random(SEED)  # noqa: S311  seeded on purpose, nothing is secret
    at_s = 0.0
    next_block = SYSTEM_PROMPT + 1
    still_open: list[tuple[int, ...]] = []
    for number in range(REQUESTS):
        blocks: tuple[int, ...] = (SYSTEM_PROMPT,)
        if still_open and draw.random() < TURN_SHARE:
            blocks = still_open.pop(draw.randrange(len(still_open)))
        added = draw.randint(1, 3)
        blocks += tuple(range(next_block, next_block + added))
        next_block += added
        prompt_tokens = (len(blocks) - 1) * BLOCK_TOKENS + draw.randint(1, BLOCK_TOKENS)
        output_tokens = draw.randint(10, 100) * draw.randint(1, 5)
        yield _Made(int(at_s * 1000), prompt_tokens, output_tokens, blocks)
        still_open = [*still_open, blocks][-OPEN_MAX:]
        in_burst = BURST[0] <= number < BURST[1]
        at_s += draw.expovariate(RATE_PER_S * (BURST_FACTOR if in_burst else 1.0))
