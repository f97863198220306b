"""How often several routers send a request to a full node while another has a free slot.

The product's own processes on a real broker, an emulated backend with a fixed run time, requests
that come evenly or at random. Everything is judged afterwards from the topics: `decisions` (which
node, how old the counts were; committed when their transaction's marker says) and `results` (when
each run ended).
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer

from lab.instruments.commits import committed_records
from lab.instruments.drained import drained
from lab.instruments.misplaced import Placement, misplaced
from lab.instruments.percentiles import p99
from lab.instruments.processes import roles
from lab.instruments.read_back import committed_decisions
from lab.instruments.run_settings import own_settings
from runtime.connection import connection_of
from runtime.kafka.connection import Connection
from runtime.kafka.topics import create_topics
from runtime.settings import Settings
from schemas.document import to_json
from schemas.message import decode
from schemas.result import Result
from schemas.topics import catalogue

ROUTERS, NODES, SLOTS = 3, 4, 8
PARTITIONS = 6
"""Two of `requests` for each router, one or two of the pool for each node."""
REALTIME_SHARE = 0.2
"""The rest may not use the slot that a node keeps for urgent work."""
WARM_UP_S = 5.0
"""Not judged: rates and latencies are means over what came before."""
DRAINED_WITHIN_S = 60.0


class Question(NamedTuple):
    """What is measured.

    Attributes:
        load: as a share of all slots.
        even: requests come one after the other; else at random, as from many independent callers.
    """

    run_ms: float
    load: float
    seconds: float
    even: bool
    seed: int = 1

    @property
    def rate(self) -> float:
        """Return requests a second."""
        return self.load * NODES * SLOTS / self.run_ms * 1000


@dataclass(frozen=True)
class PlacementCost:
    """What was found.

    Attributes:
        requests: judged.
        misplaced_share: of them, to a full node while another had a free slot.
        age_ms_p50, age_ms_p99: of the counts at a decision, as the decisions say it.
        true_age_ms_p99: from the probe's beginning to the decision, on this host's one clock.
        commit_ms_p50, commit_ms_p99: from a decision to its commit.
    """

    run_ms: float
    load: float
    even: bool
    requests_per_s: float
    requests: int
    misplaced: int
    misplaced_share: float
    age_ms_p50: float
    age_ms_p99: float
    true_age_ms_p99: float
    commit_ms_p50: float
    commit_ms_p99: float


def document_of(cost: PlacementCost) -> dict[str, Any]:
    """Return the cost as a JSON document."""
    return asdict(cost)


async def bench_placement(
    bootstrap_servers: str, question: Question, progress: Callable[[str], None]
) -> PlacementCost:
    """Run the fleet on a running broker and return what was found."""
    settings = own_settings(bootstrap_servers)
    connection = connection_of(settings)
    await create_topics(connection, catalogue(settings.topics, settings.pools, PARTITIONS))
    common = ["--bootstrap-servers", bootstrap_servers, f"--set=prefix={settings.prefix}"]
    emulated = [f"--profile=fixed:{question.run_ms:g}", f"--slots={SLOTS}", *common]
    nodes = [f"gpu-{number}" for number in range(NODES)]
    commands = [
        ["control", *common],
        *(
            ["executor", "--pool=gpu", f"--node-id={node}", "--backend=emulated", *emulated]
            for node in nodes
        ),
        *(["router", *common] for _ in range(ROUTERS)),
    ]
    with roles(commands) as running:
        progress(f"starting {len(running)} processes")
        for role in running:
            await role.until_ready()
        progress(f"{question.rate:.0f} requests/s for {question.seconds:.0f} s")
        sent, judged_from_ms = await _send(settings, connection, question)
        await drained(settings, connection, sent, DRAINED_WITHIN_S)
    progress("counting again from the topics")
    placements, true_ages_ms = await _placements(settings, connection)
    judged = [p for p in placements if p.decided_ms >= judged_from_ms]
    found = [p for p in misplaced(placements, nodes, SLOTS) if p.decided_ms >= judged_from_ms]
    ages_ms = [p.age_ms for p in judged]
    commits_ms = [p.committed_ms - p.decided_ms for p in judged]
    return PlacementCost(
        run_ms=question.run_ms,
        load=question.load,
        even=question.even,
        requests_per_s=len(judged) / question.seconds,
        requests=len(judged),
        misplaced=len(found),
        misplaced_share=len(found) / len(judged),
        age_ms_p50=statistics.median(ages_ms),
        age_ms_p99=p99(ages_ms),
        true_age_ms_p99=p99(true_ages_ms),
        commit_ms_p50=statistics.median(commits_ms),
        commit_ms_p99=p99(commits_ms),
    )


async def _send(settings: Settings, connection: Connection, question: Question) -> tuple[int, int]:
    """Send requests at random times; return how many, and from when on they are judged."""
    draw = random.Random(question.seed)  # noqa: S311  seeded on purpose, nothing is secret
    producer = AIOKafkaProducer(**connection, linger_ms=0)
    await producer.start()
    try:
        began_s, due_s = time.monotonic(), 0.0
        sent: list[asyncio.Future[Any]] = []
        judged_from_ms = int((time.time() + WARM_UP_S) * 1000)
        while due_s < WARM_UP_S + question.seconds:
            due_s += 1 / question.rate if question.even else draw.expovariate(question.rate)
            await asyncio.sleep(max(0.0, began_s + due_s - time.monotonic()))
            sent.append(
                await producer.send(
                    settings.topics.requests,
                    _request(len(sent), urgent=draw.random() < REALTIME_SHARE),
                    partition=draw.randrange(PARTITIONS),
                )
            )
        await asyncio.gather(*sent)
        return len(sent), judged_from_ms
    finally:
        await producer.stop()


def _request(number: int, *, urgent: bool) -> bytes:
    return to_json(
        {
            "id": f"r{number}",
            "model_name": "emulated",
            "priority": "realtime" if urgent else "normal",
            "latency_slo_ms": 60_000,  # realtime's own 200 ms would be missed by every run of 1 s
            "payload": {"prompt": "where?"},
        }
    )


async def _placements(
    settings: Settings, connection: Connection
) -> tuple[list[Placement], list[float]]:
    """Return what was routed to a node, and the true ages of the counts at each decision."""
    names = settings.topics
    results = [
        decode(Result, record.value)
        for record in await committed_records(connection, names.results, PARTITIONS)
    ]
    finished_ms = {result.id: result.run_ended_ms for result in results}
    placements = []
    true_ages_ms: list[float] = []
    for decided in await committed_decisions(connection, names.decisions, PARTITIONS):
        record = decided.record
        for row in record.rows:
            if row.node is None:
                continue
            placements.append(
                Placement(
                    row.id,
                    row.node,
                    record.now_ms,
                    decided.committed_ms,
                    finished_ms[row.id],
                    record.view.age_ms,
                )
            )
            if decided.counts_age_ms is not None:
                true_ages_ms.append(decided.counts_age_ms)
    return placements, true_ages_ms
