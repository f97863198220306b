"""What routers decided on a real broker comes out the same again, live and from a dump."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from deploy.cli import main
from deploy.replay import run_replay
from lab.instruments.roomy_snapshot import roomy_snapshot
from runtime.settings import PolicySettings
from schemas.control import SNAPSHOT_KEY, ModelRecord, NodeState, PartitionState, Snapshot
from schemas.message import encode
from schemas.topics import EMBEDDED_PARTITIONS
from streams.replay import Verification
from streams.replay.source import read_dump
from streams.router.service import Router
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.waiting import in_time, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

ROUNDS, A_ROUND = 8, 25
"""Snapshots, and requests after each of them."""
SLOTS = 4


class Traffic:
    """Requests, snapshots and changes of the registry, drawn from a seed."""

    def __init__(self, place: RoutePlace, producer: AIOKafkaProducer) -> None:
        self.sent = 0
        self._place, self._producer = place, producer
        self._draw = random.Random(1)
        self._number = 1

    async def rounds(self, count: int) -> None:
        """Tell the routers something new, and send requests, so many times."""
        names, draw = self._place.names, self._draw
        for _ in range(count):
            await self._producer.send_and_wait(
                names.control, encode(self._snapshot()), key=SNAPSHOT_KEY
            )
            model = ModelRecord(name="m", parameters=draw.choice([5, 10**10]))
            await self._producer.send_and_wait(names.models, encode(model), key=b"m")
            for _ in range(A_ROUND):
                conversation = f"c{draw.randrange(12)}"
                await self._producer.send(
                    names.requests, self._request(conversation), key=conversation.encode()
                )
            await self._producer.flush()
            await asyncio.sleep(0.05)  # lets some batches be decided on each snapshot

    def _request(self, conversation: str) -> bytes:
        draw = self._draw
        self.sent += 1
        document = {
            "id": f"r{self.sent}",
            "model_name": draw.choice(["m", "other"]),
            "priority": draw.choice(["realtime", "normal", "batch"]),
            "payload": {"prompt": "x"},
        }
        if draw.random() < 0.5:
            document["conversation_id"] = conversation
        return orjson.dumps(document)

    def _snapshot(self) -> Snapshot:
        self._number += 1
        seen, draw = roomy_snapshot(self._place.settings), self._draw
        nodes = [
            NodeState(
                id=f"{pool}-{number}", pool=pool, live=draw.random() < 0.8, slots=SLOTS,
                partitions=(number, number + 2), latency_ms=draw.uniform(10, 900),
            )
            for pool in seen.pools
            for number in range(2)
        ]  # fmt: skip
        pools = {
            name: pool.model_copy(
                update={
                    "partitions": tuple(
                        PartitionState(unfinished=draw.randrange(9), finish_rate=draw.uniform(0, 9))
                        for _ in range(EMBEDDED_PARTITIONS)
                    )
                }
            )
            for name, pool in seen.pools.items()
        }
        return seen.model_copy(
            update={"number": self._number, "nodes": tuple(nodes), "pools": pools}
        )


def shadowed(router: Router) -> float:
    """Return how many decisions its shadow has made beside it."""
    return sum(
        sample.value
        for metric in router._counts._metrics.registry.collect()
        if metric.name == "overspill_shadow_decisions"
        for sample in metric.samples
    )


async def test_all_decisions_of_several_routers_come_out_the_same_again(
    kafka: RunningKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    shadow = PolicySettings(shadow="gpu-only")
    place.settings = place.settings.model_copy(update={"policy": shadow})
    await place.create()
    dump = tmp_path / "decisions.jsonl.gz"
    other = place.router_process()
    producer = AIOKafkaProducer(**place.connection)
    await producer.start()
    try:
        traffic = Traffic(place, producer)

        async def all_taken() -> bool:
            return await place.consumed() == traffic.sent

        await traffic.rounds(1)  # while it works alone, the other one is there
        await until(all_taken, in_time(60))
        async with place.router() as first:
            await until(
                lambda: len(first._host.open_lanes) == EMBEDDED_PARTITIONS // 2, in_time(30)
            )
            await traffic.rounds(ROUNDS)
            await until(all_taken, in_time(30))
        by_first = shadowed(first)
        async with place.router() as second:  # on what the first one has left behind
            await traffic.rounds(ROUNDS)
            await until(all_taken, in_time(30))
    finally:
        other.terminate()
        await producer.stop()
        await asyncio.to_thread(other.wait)

    verification = Verification()
    await run_replay(place.settings, None, dump, verification.take, lambda _: None)
    found = verification.result()
    assert found.first is None
    assert (found.same, dict(found.skipped), found.routers) == (traffic.sent, {}, 2)
    here = f"-{os.getpid()}"  # the process of the other router has no shadow
    ours = [stated.record for stated in read_dump(dump) if stated.record.router.endswith(here)]
    assert by_first + shadowed(second) >= sum(len(record.rows) for record in ours) > 0

    assert await asyncio.to_thread(main, ["replay", "--from", str(dump), "--json"]) == 0
    told = orjson.loads(capsys.readouterr().out)
    assert (told["same"], told["decisions"], told["records"]) == (
        traffic.sent,
        traffic.sent,
        found.records,
    )
