"""A backend that a test ends by hand, a clock-free dispatcher around it, and pool records."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import orjson

from executors.backends.base import (
    Backend,
    BackendError,
    BackendInfo,
    Call,
    Completion,
    Load,
    SelfTest,
)
from executors.breaker import Breaker
from executors.dispatcher import Dispatcher
from executors.latency import LatencyWindow
from executors.meter import Meter
from executors.outcome import Outcome
from runtime.metrics import Metrics
from runtime.settings import MetricsSettings
from schemas.headers import Exclusion, Origin, Passage, encode_passage
from schemas.pools import ComputeType, Pool
from schemas.result import Result
from tests.waiting import until

GPU = Pool(name="gpu", compute_type=ComputeType.GPU, cost_coefficient=1.0, express=True)
NODE = "n1"


class HandBackend:
    """Calls wait until the test ends them, by request id."""

    info = BackendInfo("hand", "hand 1", "bench")

    def __init__(self) -> None:
        self.calls: dict[str, asyncio.Future[Completion]] = {}
        self.order: list[str] = []
        self.cancelled: list[str] = []

    async def start(self) -> None: ...

    async def self_test(self) -> SelfTest:
        return SelfTest(1.0)

    async def probe(self) -> None: ...

    async def load(self) -> Load | None:
        return None

    async def infer(self, call: Call) -> Completion:
        self.order.append(call.request_id)
        ending = self.calls[call.request_id] = asyncio.get_running_loop().create_future()
        try:
            completion: Completion = await ending
        except asyncio.CancelledError:
            self.cancelled.append(call.request_id)
            raise
        finally:
            del self.calls[call.request_id]
        return completion

    async def close(self) -> None: ...

    async def end(self, request_id: str, error: BackendError | Exception | None = None) -> None:
        """End a call that runs or is about to."""
        await until(lambda: request_id in self.calls)
        if error is None:
            self.calls[request_id].set_result(Completion({"text": request_id}))
        else:
            self.calls[request_id].set_exception(error)
        await settle()


@dataclass(frozen=True)
class PoolRecord:
    """One record as a lane is given it."""

    offset: int
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = b"k"
    timestamp: int = 0


def record(
    offset: int,
    *,
    attempt: int = 1,
    excluded: tuple[Exclusion, ...] = (),
    age_ms: float = 0,
    yields_ms: int = 0,
    **fields: object,
) -> PoolRecord:
    """Return a record with id `r<offset>`, decided just now."""
    now = int(time.time() * 1000 - age_ms)
    name = f"r{offset}"
    decision = orjson.dumps(
        {
            "reason": "overflow",
            "threshold": 10,
            "policy": "overflow",
            "yields_ms": yields_ms,
            "decided_at_ms": now,
        }
    )
    origin = Origin("p.requests", 2, offset)
    passage = Passage(name, origin, now, attempt, excluded, decision=decision)
    value = orjson.dumps({"id": name, "model_name": "m", "payload": {"prompt": "x"}, **fields})
    return PoolRecord(offset, value, tuple(encode_passage(passage)))


def make_dispatcher(
    backend: Backend,
    *,
    slots: int = 2,
    pool: Pool = GPU,
    latency: LatencyWindow | None = None,
    breaker: Breaker | None = None,
) -> Dispatcher:
    """Return a dispatcher of one node."""
    return Dispatcher(
        backend,
        latency or LatencyWindow(0.0),
        breaker or Breaker(),
        make_meter(pool),
        node=NODE,
        pool=pool,
        slots=slots,
    )


def make_meter(pool: Pool = GPU) -> Meter:
    """Return a meter on a registry of its own."""
    return Meter(Metrics("executor", "0"), pool.name, MetricsSettings())


def result_of(outcome: Outcome) -> Result:
    """Return the result that an outcome is."""
    return Result.model_validate(orjson.loads(outcome.value or b""))


async def settle() -> None:
    """Let all that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)
