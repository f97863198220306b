"""Decisions come out the same again from their records alone, whatever happens to routers."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from schemas.control import ModelRecord, Snapshot
from schemas.decisions import DecisionsRecord, decode_decisions
from schemas.errors import OutcomeUnknown
from schemas.features import Features
from schemas.headers import FOR_GOOD, Exclusion, Origin, Passage, encode_passage
from schemas.message import encode
from schemas.outcomes import Reason
from schemas.pools import DEFAULT_POOLS, ComputeType
from schemas.service import UNKNOWN_SIZE, ServiceTime
from schemas.topics import TopicNames
from streams.policy import POLICIES, Policy, View, policy
from streams.policy.offers import Offer, Offers
from streams.registry import Registry
from streams.replay import Verification, Verified
from streams.router import lane as lanes
from streams.router.bindings import Bindings
from streams.router.desk import Decider
from streams.router.lane import RouterLane
from streams.router.outlook import Outlook
from streams.router.rebuild import remember
from streams.router.shadow import Shadowed
from streams.router.window import DuplicateWindow
from tests.fleet import NOW_MS, node, snapshot
from tests.unit.test_router_batch import Raw, request

NAMES = TopicNames("t.")
LANES = 2
NODES = ("gpu-1", "gpu-2", "cpu-1", "cpu-2", "npu-1")
MODELS = ("m", "small", "odd")
WIDTHS = {"gpu": 2, "cpu": 2, "npu": 2}

MODELS_KNOWN = (
    ModelRecord(name="small", parameters=5),
    ModelRecord(name="odd", pinned=(ComputeType.NPU, ComputeType.CPU)),
    ModelRecord(name="m", precision="int4"),
)
STEPS = 100
"""Of one life: some 250 decisions, with everything that can befall routers among them."""


class Record(NamedTuple):
    """A record to route: `refused_by` is None in `requests`."""

    number: int
    document: dict[str, Any]
    refused_by: list[str] | None


def drawn_record(draw: random.Random) -> Record:
    """Return a request: some ids come again, most turns of the three conversations are bound."""
    maybe = {
        "priority": draw.choice(["realtime", "normal", "batch"]),
        "latency_slo_ms": draw.choice([20, 100, 900, 60_000]),
        "has_lora": draw.random() < 0.5,
        "conversation_id": draw.choice("abc"),
        "expires_after_ms": draw.choice([1, 10**9]),
        "requires": {"compute_types": ["cpu"]},
    }
    shares = (0.7, 0.5, 0.3, 0.5, 0.1, 0.1)
    kept = {
        name: value
        for share, (name, value) in zip(shares, maybe.items(), strict=True)
        if draw.random() < share
    }
    refused_by = draw.sample(NODES, draw.randint(0, 2)) if draw.random() < 0.2 else None
    return Record(draw.randrange(400), {"model_name": draw.choice(MODELS), **kept}, refused_by)


def drawn_snapshot(draw: random.Random) -> Snapshot:
    """Return a fleet with queues of all lengths, sometimes with a node that is away."""
    dead = draw.choice([None, None, *NODES])
    latency_ms = {pool: draw.uniform(1, 2000) for pool in WIDTHS}
    service = {
        kind: tuple(
            ServiceTime(
                model=model, size=UNKNOWN_SIZE, count=draw.randint(1, 50),
                p50=draw.uniform(1, 900), p95=draw.uniform(900, 2000),
            )
            for model in draw.sample(MODELS, draw.randint(0, 2))
        )
        for kind in ComputeType
    }  # fmt: skip
    made = snapshot(
        [
            node(
                name,
                unfinished=draw.randint(0, 9),
                slots=2,
                latency_ms=latency_ms[name[:3]],
                finish_rate=draw.uniform(0, 50),
                live=name != dead,
            )
            for name in NODES
        ],
        threshold=draw.randint(1, 6),
    )
    return made.model_copy(update={"service": service})


class FakeProducer:
    """Commits as it is told, and keeps the decisions of what was committed."""

    def __init__(self, world: World, outcome: str) -> None:
        self._world, self._outcome = world, outcome
        self.offsets: Mapping[TopicPartition, Committed] | None = None

    async def commit(self, outputs: Outputs, offsets: Mapping[TopicPartition, Committed]) -> None:
        await asyncio.sleep(0)  # the other lane goes on meanwhile
        if self._outcome != "lost":
            self.offsets = dict(offsets)
            for (topic, partition), batches in outputs.batches():
                built = [bytes(batch._build()) for batch in batches]
                self._world.bytes += [(topic, partition, batch) for batch in built]
                if topic == NAMES.decisions:
                    self._world.written += _records(built)
        if self._outcome != "committed":
            raise OutcomeUnknown("no answer")


def _records(batches: list[bytes]) -> Iterator[DecisionsRecord]:
    for batch in batches:
        for record in DefaultRecordBatch(batch):
            yield decode_decisions(record.value or b"")


class World:
    """Two routers on partitions of their own, and what they have written, in order of commit."""

    def __init__(self, decider: Decider) -> None:
        self.written: list[DecisionsRecord] = []
        self.bytes: list[tuple[str, int, bytes]] = []
        self.now_ms = NOW_MS
        self.time = SimpleNamespace(
            time=lambda: self.now_ms / 1000, monotonic=lambda: self.now_ms / 1000
        )
        self._policy = decider
        self._starts = itertools.count()
        self._offsets = itertools.count()
        self._widths = dict(WIDTHS)
        self._last: Snapshot | None = None
        self._told = 0
        self._registry = Registry()
        self.routers = [self._router(number) for number in range(2)]

    def _router(self, number: int) -> tuple[Outlook, list[RouterLane]]:
        identity = f"router-{number}-{next(self._starts)}"
        outlook = Outlook(View(DEFAULT_POOLS, identity, self._widths))
        outlook.learn(self._registry)
        if self._last is not None:
            outlook.hear(self._last, encode(self._last), self.now_ms / 1000)
        sequence = itertools.count(1)
        return outlook, [
            RouterLane(
                number * LANES + lane,
                router=identity,
                connection={},
                names=NAMES,
                pools=DEFAULT_POOLS,
                policy=self._policy,
                outlook=outlook,
                widths={NAMES.results: 1, NAMES.dead_letter: 1},
                sequence=sequence,
                on_committed=lambda *_: None,
            )
            for lane in range(LANES)
        ]

    def read_back(self, partition: int) -> tuple[DuplicateWindow, Bindings]:
        window, bindings = DuplicateWindow(), Bindings()
        for record in self.written:
            if record.partition == partition:
                remember(record, window, bindings, self.now_ms)
        return window, bindings

    async def step(self, draw: random.Random) -> None:
        what = draw.choices(
            ("route", "hear", "learn", "pass", "restart", "widen"), (50, 20, 8, 14, 6, 2)
        )[0]
        if what == "pass":
            self.now_ms += draw.choices((3, 250, 1_900, 29_000, 61_000), (8, 8, 4, 1, 1))[0]
        elif what == "hear":
            self._told += 1
            self._last = drawn_snapshot(draw).model_copy(update={"number": self._told})
            for outlook, _ in self.routers:
                outlook.hear(self._last, encode(self._last), self.now_ms / 1000)
        elif what == "learn":
            known = draw.sample(MODELS_KNOWN, draw.randint(0, len(MODELS_KNOWN)))
            self._registry = Registry({model.name: model for model in known})
            for outlook, _ in self.routers:
                outlook.learn(self._registry)
        elif what == "widen":
            self._widths = {pool: width + 1 for pool, width in self._widths.items()}
            for outlook, _ in self.routers:
                outlook.widen(self._widths)
        elif what == "restart":
            number = draw.randrange(2)
            self.routers[number] = self._router(number)
        else:
            await self._route(
                draw.randrange(2),
                [[drawn_record(draw) for _ in range(draw.randint(0, 4))] for _ in range(LANES)],
                draw.choices(("committed", "lost", "in doubt"), (8, 1, 1), k=LANES),
            )

    async def _route(self, number: int, batches: list[list[Record]], how: list[str]) -> None:
        _, mine = self.routers[number]
        await asyncio.gather(
            *(
                self._lane(number * LANES + at, lane, batch, outcome)
                for at, (lane, batch, outcome) in enumerate(zip(mine, batches, how, strict=True))
                if batch
            )
        )

    async def _lane(self, number: int, lane: RouterLane, batch: list[Record], outcome: str) -> None:
        sources = TopicPartition(NAMES.requests, number), TopicPartition(NAMES.retry, number)
        nothing = {source: Committed(0, "") for source in sources}
        await lane.open(nothing)
        for identity, document, refused in batch:
            raw = Raw(next(self._offsets), request(f"r{identity}", **document))
            raw.timestamp = self.now_ms
            if refused is not None:
                raw.headers = _refused(raw, f"r{identity}", refused)
            lane.offer(sources[refused is not None], [raw])
        producer = FakeProducer(self, outcome)
        work = asyncio.ensure_future(lane.run(producer))  # type: ignore[arg-type]
        drained = asyncio.ensure_future(lane.drain())
        await asyncio.wait({work, drained}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, drained):
            task.cancel()
        await asyncio.gather(work, drained, return_exceptions=True)
        await lane.open(producer.offsets or nothing)


def _refused(raw: Raw, name: str, nodes: list[str]) -> list[tuple[str, bytes | None]]:
    until = (FOR_GOOD, raw.timestamp + 4_000)
    excluded = tuple(Exclusion(node, until[at]) for at, node in enumerate(nodes))
    passage = Passage(name, Origin(NAMES.requests, 0, raw.offset), raw.timestamp, 2, excluded)
    return list(encode_passage(passage))


def replayed(written: list[DecisionsRecord]) -> Verified:
    verification = Verification()
    for record in sorted(written, key=lambda record: (record.now_ms, record.sequence)):
        verification.take(record)
    return verification.result()


def lived(decider: Decider, seed: str, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a world after all that a seed lets happen."""
    world, draw = World(decider), random.Random(seed)

    async def read_back(_: object, decisions: TopicPartition, __: int) -> Any:
        return world.read_back(decisions.partition)

    async def live() -> None:
        for _ in range(STEPS):
            await world.step(draw)

    monkeypatch.setattr(lanes, "time", world.time)
    monkeypatch.setattr(lanes, "read_memory", read_back)
    asyncio.run(live())
    return world


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_decision_comes_out_the_same_again(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lived(policy(name), f"{name}-{seed}", monkeypatch)
    decided = sum(row.features is not None for record in world.written for row in record.rows)
    assert decided > STEPS
    found = replayed(world.written)
    assert found.first is None
    assert (found.same, dict(found.skipped)) == (decided, {})


def _faulty(features: Features, offers: Offers, threshold: int) -> tuple[Offer, Reason]:
    raise ZeroDivisionError(features, offers, threshold)


@pytest.mark.parametrize(
    "candidate", [policy("round-robin"), Policy("faulty", _faulty)], ids=lambda one: one.name
)
def test_with_a_shadow_beside_it_a_router_writes_the_same_bytes(
    candidate: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = lived(policy("overflow"), "shadow", monkeypatch)
    prices = {pool.name: pool.cost_coefficient for pool in DEFAULT_POOLS}
    shadowed = Shadowed(policy("overflow"), candidate, prices)
    watched = lived(shadowed, "shadow", monkeypatch)
    assert len(alone.bytes) > STEPS
    assert watched.bytes == alone.bytes
    tally = shadowed.take_tally()
    assert tally.otherwise or tally.failures
