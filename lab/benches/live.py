"""A slice of a trace through the whole system on real Kafka, and through the simulator.

The product's own processes, one a node, with the emulated backend and the fleet's own profiles; the
requests that the workload rule makes of the trace, each at its time. Judged from the topics.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from lab.benches.agreement import Agreement, Decided, Finished, agreement
from lab.instruments.commits import committed_records
from lab.instruments.drained import drained
from lab.instruments.processes import roles
from lab.instruments.read_back import committed_decisions
from lab.instruments.run_settings import own_settings
from lab.simulator.fleet import DEFAULT_FLEET, Fleet
from lab.simulator.traces import Arrival
from lab.simulator.workload import MODELS, Asked, workload
from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.topics import create_topics
from runtime.settings import Settings
from schemas.document import to_json
from schemas.errors import UsageError
from schemas.message import decode, encode
from schemas.result import Result
from schemas.topics import catalogue
from schemas.value import replace
from streams.policy import policy

LIVE_FLEET = DEFAULT_FLEET.parent / "half.toml"
DRAINED_WITHIN_S = 7200.0
"""After the last request: `predictive` lets patient work wait for an hour, then it has to run."""
CHARS_PER_TOKEN = 4
"""As the emulated backend counts the tokens of a prompt."""


class LiveRun(NamedTuple):
    """What is run.

    Attributes:
        from_s, seconds: the slice of the trace, in its own time.
        speed: times as fast, at most 3.
        every: keep each so-manieth request, so that a small machine carries it.
    """

    policy: str
    from_s: float
    seconds: float
    speed: float
    every: int
    seed: int


def slice_of(arrivals: Sequence[Arrival], run: LiveRun) -> list[Arrival]:
    """Return the requests of the slice, from 0 on; raise UsageError if there are none."""
    from_ms, to_ms = run.from_s * 1000, (run.from_s + run.seconds) * 1000
    kept = [arrival for arrival in arrivals if from_ms <= arrival.at_ms < to_ms][:: run.every]
    if not kept:
        raise UsageError(
            f"the trace has no request from {run.from_s:g} s on for {run.seconds:g} s; it ends "
            f"after {arrivals[-1].at_ms / 1000:.0f} s"
        )
    return [replace(arrival, at_ms=arrival.at_ms - kept[0].at_ms) for arrival in kept]


async def bench_live(
    bootstrap_servers: str,
    fleet: Fleet,
    arrivals: Sequence[Arrival],
    run: LiveRun,
    progress: Callable[[str], None],
) -> Agreement:
    """Run the slice live and simulated; raise UsageError or OverspillError."""
    requests = workload(slice_of(arrivals, run), run.seed, run.speed)
    settings = own_settings(bootstrap_servers).model_copy(update={"pools": fleet.priced})
    connection = connection_of(settings)
    partitions = max(pool.nodes for pool in fleet.pools)
    await create_topics(connection, catalogue(settings.topics, settings.pools, partitions))
    with tempfile.TemporaryDirectory(prefix="overspill-live-") as folder:
        commands = _commands(settings, fleet, run.policy, Path(folder))
        with roles(commands) as running:
            progress(f"starting {len(running)} processes")
            for role in running:
                await role.until_ready()
            await _send(settings, connection, requests, run.seed, progress)
            await drained(
                settings,
                connection,
                len(requests),
                DRAINED_WITHIN_S,
                lambda left: progress(f"all sent, {left} are left"),
            )
    progress("reading the topics, and simulating")
    decided, finished = await _read(settings, connection, partitions)
    return agreement(fleet, requests, policy(run.policy), decided, finished)


def _commands(settings: Settings, fleet: Fleet, name: str, folder: Path) -> list[list[str]]:
    """Return the commands of all roles, with their files in the folder."""
    configured = folder / "overspill.toml"
    configured.write_text("\n".join(_pools(fleet)))
    common = [
        f"--config={configured}",
        f"--bootstrap-servers={settings.kafka.bootstrap_servers}",
        f"--set=prefix={settings.prefix}",
        f"--set=policy.name={name}",
    ]
    commands = [["control", *common], ["router", *common]]
    for pool in fleet.pools:
        profile = folder / f"{pool.name}.toml"
        stated = pool.profile.model_dump(exclude_defaults=True)
        profile.write_text("\n".join(f"{key} = {_toml(value)}" for key, value in stated.items()))
        commands += [
            [
                "executor", f"--pool={pool.name}", f"--node-id={pool.name}-{number}",
                "--backend=emulated", f"--slots={pool.slots}", f"--profile={profile}", *common,
            ]
            for number in range(pool.nodes)
        ]  # fmt: skip
    return commands


def _pools(fleet: Fleet) -> list[str]:
    return [
        f'[[pools]]\nname = "{pool.name}"\ncompute_type = "{pool.compute_type.value}"\n'
        f"cost_coefficient = {pool.cost_coefficient!r}\nexpress = {str(pool.express).lower()}"
        for pool in fleet.priced
    ]


def _toml(value: Any) -> str:
    return to_json(value).decode()  # numbers and arrays of them are the same in both


async def _send(
    settings: Settings,
    connection: Connection,
    requests: Sequence[Asked],
    seed: int,
    progress: Callable[[str], None],
) -> None:
    """Register the models, then send each request at its time."""
    names = settings.topics
    producer = AIOKafkaProducer(**connection, linger_ms=0)
    await producer.start()
    try:
        for name, model in MODELS.items():
            await producer.send_and_wait(names.models, encode(model), key=name.encode())
        began_s = time.monotonic()
        sent: list[asyncio.Future[Any]] = []
        for asked in requests:
            await asyncio.sleep(max(0.0, began_s + asked.at_ms / 1000 - time.monotonic()))
            name = f"{seed}-{asked.number}"
            key = asked.features.conversation or name
            sent.append(
                await producer.send(names.requests, request_of(asked, name), key=key.encode())
            )
            progress(f"{len(sent)} of {len(requests)} requests sent")
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


def request_of(asked: Asked, name: str) -> bytes:
    """Return a request as it is sent; named as the emulated backend draws its jitter."""
    features = asked.features
    return to_json(
        {
            "id": name,
            "model_name": features.model,
            "priority": features.priority.value,
            "latency_slo_ms": features.slo_ms,
            "estimated_gflops": features.gflops,
            "has_lora": features.lora,
            "conversation_id": features.conversation,
            "payload": {
                "prompt": "x" * (asked.prompt_tokens * CHARS_PER_TOKEN),
                "max_tokens": asked.output_tokens,
            },
        }
    )


async def _read(
    settings: Settings, connection: Connection, partitions: int
) -> tuple[list[Decided], list[Finished]]:
    """Return every routing transaction and every result."""
    names = settings.topics
    decided = [
        Decided(each.record.now_ms, each.committed_ms, each.counts_age_ms)
        for each in await committed_decisions(connection, names.decisions, partitions)
    ]
    finished = [
        Finished(decode(Result, record.value), record.at_ms)
        for record in await committed_records(connection, names.results, partitions)
    ]
    return decided, finished
