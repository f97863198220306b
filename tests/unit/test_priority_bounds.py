"""How long work waits for a slot: the real dispatcher, heap and slots, in virtual time.

The figures are in docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from executors import dispatcher as dispatching
from executors.backends.base import BackendInfo, Call, Completion, Load, SelfTest
from executors.breaker import Breaker
from executors.dispatcher import EXPIRY_SCAN_S, Dispatcher
from executors.heap import Heap, Urgency, Waiting
from executors.job import Job
from executors.latency import LatencyWindow
from executors.outcome import Outcome
from executors.work import Source, read_work
from schemas.metadata import IN_FLIGHT_MAX
from tests.unit.executor_doubles import GPU, NODE, make_meter, record
from tests.virtual_loop import run_virtually

SEED = 7
OVERLOAD_S = 150.0
"""For most of it the whole backlog is aged."""
BATCH_STARTS_WITHIN_S = 60.0
LIVES_MOST_S = 5.0


@dataclass(eq=False)
class Node:
    """A node's dispatcher with a backend that takes its time, and what became of the work.

    Attributes:
        run_s: of each run.
        handed_in, expires: second, by request id.
        begun: second of its start, by request id, in order of start.
        left: how much has been handed in and has not ended, by class.
        ended: request ids, as they ended.
    """

    slots: int
    run_s: float
    handed_in: dict[str, float] = field(default_factory=dict)
    expires: dict[str, float] = field(default_factory=dict)
    begun: dict[str, float] = field(default_factory=dict)
    left: Counter[Urgency] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    info = BackendInfo("timed", "timed 1", "bench")

    def __post_init__(self) -> None:
        one = record(0)
        source = Source("p.gpu", 0, 0)
        self._like = read_work(source, one.key, one.value, one.headers, express=False)
        self._dispatcher = Dispatcher(
            self,
            LatencyWindow(0.0),
            Breaker(),
            make_meter(GPU),
            node=NODE,
            pool=GPU,
            slots=self.slots,
        )

    @property
    def per_s(self) -> float:
        """Return how many requests it can run in a second."""
        return self.slots / self.run_s

    async def start(self) -> None: ...

    async def self_test(self) -> SelfTest:
        return SelfTest(0.0)

    async def probe(self) -> None: ...

    async def load(self) -> Load | None:
        return None

    async def infer(self, call: Call) -> Completion:
        self.begun[call.request_id] = now_s()
        await asyncio.sleep(self.run_s)
        return Completion({})

    async def close(self) -> None: ...

    def finish(self, outcome: Outcome) -> None:
        self._dispatcher.written(outcome.size)
        self.left[Urgency[outcome.source.topic]] -= 1
        self.ended.append(f"{outcome.source.topic}-{outcome.source.offset}")

    def left_slot(self, error: BaseException | None) -> None:
        assert error is None

    def submit(self, urgency: Urgency, lives_s: float = 24 * 3600, yields_ms: int = 0) -> None:
        """Hand in one piece of work, as a lane does with what it reads."""
        number = len(self.handed_in)
        name = f"{urgency.name}-{number}"
        self.handed_in[name] = now_s()
        self.left[urgency] += 1
        expires_ms = int((now_s() + lives_s) * 1000)
        self.expires[name] = expires_ms / 1000
        work = replace(
            self._like,
            source=Source(urgency.name, 0, number),
            request=msgspec.structs.replace(self._like.request, id=name),
            urgency=urgency,
            deadline_ms=expires_ms,
            yields_ms=yields_ms,
            expires_at_ms=expires_ms,
        )
        self._dispatcher.submit(work, self)

    def waits_s(self, urgency: Urgency) -> list[float]:
        """Return how long the work of a class waited that has started, in order of start."""
        of_class = (name for name in self.begun if name.startswith(f"{urgency.name}-"))
        return [self.begun[name] - self.handed_in[name] for name in of_class]

    def stop(self) -> None:
        """Start nothing more: the loop is about to end."""
        self._dispatcher.stop_starting()


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "_now_ms", lambda: now_s() * 1000)


async def arrive(draw: random.Random, per_s: float, for_s: float, act: Callable[[], None]) -> None:
    """Let something happen at random times for a while."""
    await asyncio.sleep(draw.expovariate(per_s))
    while now_s() < for_s:
        act()
        await asyncio.sleep(draw.expovariate(per_s))


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


async def overloaded(node: Node, share: float, for_s: float) -> None:
    """Give realtime work a share of the node, and more batch work than it can ever run.

    A lane reads ahead what its ledger takes: so much batch work waits all the time, however much
    more stands in the topic.
    """
    draw = random.Random(SEED)

    async def backlog() -> None:
        while now_s() < for_s:
            while node.left[Urgency.BATCH] < IN_FLIGHT_MAX:
                node.submit(Urgency.BATCH)
            await asyncio.sleep(node.run_s)

    realtime = arrive(draw, share * node.per_s, for_s, lambda: node.submit(Urgency.EXPRESS))
    await asyncio.gather(backlog(), realtime)
    node.stop()


async def nearly_full(node: Node, realtime: float, batch: float, for_s: float) -> None:
    """Give realtime and batch work their shares of the node, at random times."""
    draw = random.Random(SEED)
    await asyncio.gather(
        arrive(draw, realtime * node.per_s, for_s, lambda: node.submit(Urgency.EXPRESS)),
        arrive(draw, batch * node.per_s, for_s, lambda: node.submit(Urgency.BATCH)),
    )
    await asyncio.sleep(BATCH_STARTS_WITHIN_S)
    node.stop()


async def short_lived(node: Node, for_s: float) -> None:
    """Give the node three times what it can run, most of which expires before its turn."""
    draw = random.Random(SEED)

    def one() -> None:
        urgency = draw.choice([Urgency.EXPRESS, Urgency.NORMAL, Urgency.BATCH])
        node.submit(urgency, lives_s=draw.uniform(0.0, LIVES_MOST_S))

    await arrive(draw, 3 * node.per_s, for_s, one)
    await asyncio.sleep(LIVES_MOST_S + 1.0)


async def patient_crowd(node: Node, for_s: float) -> None:
    """Give the node more work that yields, a piece a ms, than it can start: a slot stays free."""
    while now_s() < for_s:
        if node.left[Urgency.BATCH] < IN_FLIGHT_MAX:
            node.submit(Urgency.BATCH, yields_ms=1024)
        await asyncio.sleep(0.001)
    node.stop()


@pytest.mark.parametrize(("slots", "run_s"), [(4, 0.2), (8, 1.0)])
def test_realtime_waits_one_run_and_a_quarter_second_however_much_batch_work_there_is(
    slots: int, run_s: float
) -> None:
    node = Node(slots, run_s)
    run_virtually(overloaded(node, share=0.5, for_s=OVERLOAD_S))
    waits_s = node.waits_s(Urgency.EXPRESS)
    assert len(waits_s) > 500
    assert p99(waits_s) <= run_s + 0.25
    assert len(node.waits_s(Urgency.BATCH)) > 500


def test_batch_work_starts_within_a_minute_while_realtime_takes_nine_tenths() -> None:
    node = Node(slots=2, run_s=0.5)
    run_virtually(nearly_full(node, realtime=0.9, batch=0.08, for_s=500))
    waits_s = node.waits_s(Urgency.BATCH)
    assert len(waits_s) == sum(name.startswith("BATCH") for name in node.handed_in)
    assert len(waits_s) > 120
    assert max(waits_s) <= BATCH_STARTS_WITHIN_S


def test_what_has_expired_never_starts_and_everything_ends_once() -> None:
    node = Node(slots=4, run_s=0.2)
    run_virtually(short_lived(node, for_s=60))
    late = [name for name, at in node.begun.items() if at >= node.expires[name]]
    assert late == []
    assert sorted(node.ended) == sorted(node.handed_in)
    assert 500 < len(node.begun) < len(node.handed_in) / 2


def test_expired_work_is_looked_for_no_more_often_where_much_work_yields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    take_expired = Heap.take_expired

    def look(heap: Heap[Job], now_ms: float) -> list[Waiting[Job]]:
        nonlocal looks
        looks += 1
        return take_expired(heap, now_ms)

    monkeypatch.setattr(Heap, "take_expired", look)
    node = Node(slots=2, run_s=5.0)
    run_virtually(patient_crowd(node, for_s=4))
    assert 4 <= looks <= 4 / EXPIRY_SCAN_S + 1
