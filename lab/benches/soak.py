"""Whether memory stays where it is: millions of small requests, the size of each role sampled.

The product's own processes on a real broker; emulated nodes that take no time, so that requests
pass as fast as the roles can do it. Names are made up as callers do (models, conversations), and
some records are broken, since what is kept by name or by error is what grows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from lab.instruments.processes import Role, cpu_s, roles
from lab.instruments.rss import Growth, Sizes
from lab.instruments.run_settings import own_settings
from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.topics import create_topics
from runtime.settings import Settings
from schemas.document import to_json
from schemas.errors import OverspillError
from schemas.topics import EMBEDDED_PARTITIONS, catalogue
from streams.control.probe import Probe

NODES, SLOTS = 2, 32
IN_FLIGHT = 20_000
"""Requests sent and not ended: enough to keep all roles busy, and what waits stays fresh."""
SETTLED_S = 180.0
"""Until then windows, bindings and caches fill; from then on nothing may grow."""
LOOK_S = 0.5
SAY_S = 15.0
STUCK_S = 180.0
BROKEN_EVERY, NAMED_EVERY, TALKING_EVERY = 100, 20, 10
SENT_AT_ONCE = 500


class Progressed(NamedTuple):
    """How far the system is, in records of `requests`."""

    ended: int
    dead: int


@dataclass(frozen=True)
class Soak:
    """What a soak showed.

    Attributes:
        per_s: requests that ended, a second.
        cpu_us: CPU time of each role for a request, microseconds.
        growth: by role.
    """

    requests: int
    seconds: float
    per_s: float
    dead: int
    cpu_us: dict[str, float]
    growth: dict[str, Growth]


def document_of(soak: Soak) -> dict[str, Any]:
    """Return it as a JSON document."""
    growth = {role: of_it._asdict() for role, of_it in soak.growth.items()}
    return asdict(soak) | {"growth": growth}


async def bench_soak(
    bootstrap_servers: str, requests: int, progress: Callable[[str], None]
) -> Soak:
    """Let so many requests through a fleet on a running broker and return how sizes went."""
    settings = own_settings(bootstrap_servers)
    connection = connection_of(settings)
    await create_topics(connection, catalogue(settings.topics, settings.pools))
    common = ["--bootstrap-servers", bootstrap_servers, f"--set=prefix={settings.prefix}"]
    emulated = ["--backend=emulated", "--profile=fixed:0", f"--slots={SLOTS}", *common]
    commands = {
        "control": ["control", *common],
        "router": ["router", *common],
        **{
            f"node {number}": ["executor", "--pool=gpu", f"--node-id=gpu-{number}", *emulated]
            for number in range(NODES)
        },
    }
    with roles(list(commands.values())) as running:
        progress(f"starting {len(running)} processes")
        for role in running:
            await role.until_ready()
        members = dict(zip(commands, running, strict=True))
        return await _run(settings, connection, members, requests, progress)


async def _run(
    settings: Settings,
    connection: Connection,
    members: dict[str, Role],
    requests: int,
    progress: Callable[[str], None],
) -> Soak:
    sizes = Sizes({name: role.pid for name, role in members.items()})
    probe = Probe(connection, settings.topics, settings.pools)
    producer = AIOKafkaProducer(**connection, linger_ms=5, max_batch_size=128 * 1024)
    await producer.start()
    documents = _documents(requests)
    used_s = {name: cpu_s(role.pid) for name, role in members.items()}
    sent, began_s, said_s = 0, time.monotonic(), 0.0
    moved_s, before = began_s, Progressed(0, 0)
    try:
        while before.ended < requests:
            while sent - before.ended < IN_FLIGHT and sent < requests:
                sent += await _send(producer, settings.topics.requests, documents, sent)
            await asyncio.sleep(LOOK_S)
            done, now_s = await _progressed(probe), time.monotonic()
            resident_mb = sizes.sample(now_s - began_s)
            if done != before:
                moved_s, before = now_s, done
            elif now_s - moved_s > STUCK_S:
                last = "; ".join(f"{name}: {role.last_line}" for name, role in members.items())
                raise OverspillError(f"{sent - done.ended} requests do not end; said last: {last}")
            if now_s - said_s > SAY_S:
                said_s = now_s
                shown = ", ".join(f"{name} {mb:.0f}" for name, mb in resident_mb.items())
                rate = done.ended / (now_s - began_s)
                progress(f"{done.ended:,} of {requests:,} ended, {rate:,.0f}/s; MB: {shown}")
                if grown := _grown(sizes):
                    progress(f"  since minute 3, MB a minute: {grown}")
    finally:
        await producer.stop()
        await probe.close()
    seconds = time.monotonic() - began_s
    cpu_us = {
        name: (cpu_s(role.pid) - used_s[name]) / requests * 1e6 for name, role in members.items()
    }
    growth = sizes.growth(SETTLED_S)
    return Soak(requests, seconds, requests / seconds, before.dead, cpu_us, growth)


def _grown(sizes: Sizes) -> str:
    growth = sizes.growth(SETTLED_S)
    return ", ".join(
        f"{name} {of_it.per_minute_mb:+.2f}"
        for name, of_it in growth.items()
        if of_it.per_minute_mb is not None
    )


async def _send(
    producer: AIOKafkaProducer, topic: str, documents: Iterator[bytes], number: int
) -> int:
    """Send the next documents, to all partitions in turn; return how many once all have arrived."""
    sent = [
        await producer.send(topic, document, partition=(number + at) % EMBEDDED_PARTITIONS)
        for at, document in zip(range(SENT_AT_ONCE), documents, strict=False)
    ]
    await asyncio.gather(*sent)
    return len(sent)


async def _progressed(probe: Probe) -> Progressed:
    sample, _ = await probe.read()
    unfinished = sum(lag.unfinished for pool in sample.pools.values() for lag in pool)
    return Progressed(sample.consumed - unfinished, sample.dead)


def _documents(requests: int) -> Iterator[bytes]:
    for number in range(requests):
        if number % BROKEN_EVERY == 0:
            yield b"{"
            continue
        request = {
            "id": f"soak-{number}",
            "model_name": f"m{number}" if number % NAMED_EVERY == 1 else "m",
            "tenant": f"t{number % 5000}",
            "payload": {"prompt": "where?"},
        }
        if number % TALKING_EVERY == 3:  # noqa: PLR2004  any remainder but those above
            request["conversation_id"] = f"c{number // 3}"
        yield to_json(request)
