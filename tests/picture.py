"""Draws the README's picture: `overspill top` beside a running `overspill up`, under some load.

`python -m tests.picture 127.0.0.1:9092 docs/top.svg`, in half a minute. Nothing on it is drawn by
hand or made up but the run times of gpu and npu, which the stack emulates.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
import uuid
from pathlib import Path

import aiohttp
import orjson
from confluent_kafka import Producer
from rich.console import Console

from deploy.cli.top import PAGE_PORT
from deploy.cli.top_screen import top_screen

KINDS = (
    {"priority": "realtime", "latency_slo_ms": 2000},
    {"priority": "normal", "latency_slo_ms": 4000},
    {"priority": "batch", "latency_slo_ms": 15000},
    {"has_lora": True, "latency_slo_ms": 4000},
)
WAVES, WAVE, EVERY_S = 12, 60, 2.0
"""So many requests at once fill the GPU's queue past its threshold; then it empties again."""
AFTER_S = 0.6
"""From the last wave to the picture: the queue is seen, and nodes have reported."""
COLUMNS = 122
OUTSIDE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Rich names fonts on the internet; whoever looks at the picture fetches nothing."""


async def send_waves(servers: str) -> None:
    """Send all waves; the last one has just begun to run when this returns."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for wave in range(WAVES):
        await asyncio.sleep(EVERY_S)
        for number in range(WAVE):
            name = str(uuid.uuid4())
            payload = {"prompt": "The with statement", "max_tokens": 4}
            kind = KINDS[(wave + number) % len(KINDS)]
            request = {"id": name, "model_name": "tiny-docs", "payload": payload, **kind}
            producer.produce("overspill.requests", orjson.dumps(request), key=name)
        await asyncio.to_thread(producer.flush)
    await asyncio.sleep(AFTER_S)


async def drawn(servers: str) -> str:
    """Return what the board shows after the last wave as SVG."""
    await send_waves(servers)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{PAGE_PORT}/board") as answer,
    ):
        board = orjson.loads(await answer.read())
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(top_screen(board))
    svg = console.export_svg(title="overspill top", unique_id="overspill")
    return OUTSIDE.sub("", svg)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(asyncio.run(drawn(sys.argv[1])), encoding="utf-8")
