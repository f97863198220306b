"""Made-up requests for benchmarks: a seeded mix, so that two runs see the same bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from schemas.document import to_json

_WORDS = ("the", "with", "statement", "is", "used", "to", "wrap", "execution", "of", "a", "block")
_PRIORITIES = ("normal", "normal", "batch", "batch", "batch", "realtime")
"""Most work is not urgent; that is what makes routing by cost worth it."""


def requests(count: int, seed: int = 1) -> Iterator[bytes]:
    """Yield `count` request documents of about 350 bytes."""
    draw = random.Random(seed)  # noqa: S311  seeded on purpose, nothing is secret
    for number in range(count):
        request = {
            "id": f"bench-{seed}-{number:08d}",
            "model_name": "tiny-docs",
            "priority": draw.choice(_PRIORITIES),
            "estimated_gflops": round(draw.uniform(0.1, 40.0), 2),
            "tenant": f"team-{draw.randrange(8)}",
            "has_lora": draw.random() < 0.1,  # noqa: PLR2004  a tenth, as in the demo
            "payload": {
                "prompt": " ".join(draw.choices(_WORDS, k=32)),
                "max_tokens": 16,
                "temperature": 0,
            },
        }
        if draw.random() < 0.5:  # noqa: PLR2004  half of the work has an objective
            request["latency_slo_ms"] = draw.choice((100, 500, 2000, 10_000))
        yield to_json(request)
