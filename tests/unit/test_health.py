"""A node whose backend fails takes no work, ends none, and comes back; one that hangs is seen."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from executors import engine_calls, health
from executors.backends.base import BackendError, Call, Completion, SelfTest
from executors.breaker import FAILURES_IN_ROW, OVERDUE_S, Breaker
from executors.dispatcher import Dispatcher
from executors.health import HealthWatch
from executors.latency import LatencyWindow
from executors.outcome import Outcome
from executors.retry import ATTEMPTS_MAX
from executors.work import Source, read_work
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory, Status
from schemas.topics import RETRY
from tests.unit.executor_doubles import (
    HandBackend,
    PoolRecord,
    make_dispatcher,
    record,
    result_of,
    settle,
)
from tests.waiting import in_time, until


class Patient(HandBackend):
    """A backend with a health of its own; calls that it was told to keep do not stop."""

    def __init__(self) -> None:
        super().__init__()
        self.sick: str | None = None
        self.busy = False
        self.deaf = False
        self.let_go = asyncio.Event()
        self.nonsense: str | None = None
        self.golden = True
        self.probes = self.proofs = 0

    async def self_test(self) -> SelfTest:
        self.proofs += 1
        if self.busy:
            raise BackendUnavailable("429") from BackendError(ErrorCategory.OVERLOADED, "429")
        if not self.golden:
            raise UsageError("no golden inputs in golden.json")
        if self.nonsense is not None:
            raise BackendUnavailable(self.nonsense)
        return SelfTest(1.0)

    async def probe(self) -> None:
        self.probes += 1
        if self.sick == "silent":
            await asyncio.Event().wait()
        if self.sick is not None:
            raise BackendUnavailable(self.sick)

    async def infer(self, call: Call) -> Completion:
        try:
            return await super().infer(call)
        except asyncio.CancelledError:
            while self.deaf and not self.let_go.is_set():
                try:
                    await self.let_go.wait()
                except asyncio.CancelledError:
                    continue
            raise


class Ward:
    """A dispatcher with its watch, and the owner of its work."""

    def __init__(self, slots: int = 4) -> None:
        self.backend = Patient()
        self.breaker = Breaker()
        self.outcomes: list[Outcome] = []
        self.changes = 0
        latency = LatencyWindow(1.0)
        self.dispatcher: Dispatcher = make_dispatcher(
            self.backend, slots=slots, latency=latency, breaker=self.breaker
        )
        self.watch = HealthWatch(
            self.backend,
            self.breaker,
            self.dispatcher,
            latency,
            self.backend.self_test,
            self.changed,
        )
        self.watching = asyncio.ensure_future(self.watch.run())

    def changed(self) -> None:
        self.changes += 1

    def finish(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def left_slot(self, error: BaseException | None) -> None:
        assert error is None

    def submit(self, *records: PoolRecord) -> None:
        for one in records:
            work = read_work(
                Source("p.gpu", 0, one.offset), one.key, one.value, one.headers, express=False
            )
            self.dispatcher.submit(work, self)

    async def fail(self, category: ErrorCategory = ErrorCategory.BACKEND_ERROR) -> None:
        """Let as many runs fail as raise doubt."""
        for number in range(FAILURES_IN_ROW):
            self.submit(record(number))
            await self.backend.end(f"r{number}", BackendError(category, "broken"))


@pytest.fixture
async def ward(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ward]:
    monkeypatch.setattr(health, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(health, "PROBE_WITHIN_S", 0.1)
    monkeypatch.setattr(engine_calls, "CANCEL_WITHIN_S", 0.05)
    monkeypatch.setattr("executors.breaker.PROBE_FIRST_S", 0.02)
    monkeypatch.setattr("executors.breaker.PROBE_MOST_S", 0.05)
    made = Ward()
    made.breaker._pause_s = 0.02
    yield made
    made.dispatcher.stop_starting()
    made.backend.let_go.set()
    made.watching.cancel()
    await asyncio.gather(made.watching, return_exceptions=True)


async def test_failures_of_a_backend_that_passes_its_probe_stop_nothing(ward: Ward) -> None:
    await ward.fail()
    await until(lambda: ward.backend.probes == 1)
    await settle()
    ward.submit(record(9))
    await ward.backend.end("r9")
    assert ward.breaker.unhealthy is None
    assert result_of(ward.outcomes[-1]).status is Status.OK
    assert (ward.changes, ward.backend.proofs) == (0, 0)


async def test_a_backend_that_fails_its_probe_is_given_nothing_until_it_passes_one(
    ward: Ward,
) -> None:
    ward.backend.sick = "the engine is broken"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy == "the engine is broken")
    started = len(ward.backend.order)
    ward.submit(record(9, expires_after_ms=600_000))
    await until(lambda: ward.backend.probes >= 4)
    assert len(ward.backend.order) == started
    ward.backend.sick = None
    await until(lambda: ward.breaker.unhealthy is None)
    await ward.backend.end("r9")
    assert result_of(ward.outcomes[-1]).status is Status.OK
    assert ward.changes == 2


async def test_what_comes_back_is_believed_by_its_golden_answers_only(ward: Ward) -> None:
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy == "away")
    assert ward.backend.proofs == 0
    ward.backend.nonsense = "another model answers"
    ward.backend.sick = None
    await until(lambda: ward.breaker.unhealthy == "another model answers")
    ward.backend.nonsense = None
    await until(lambda: ward.breaker.unhealthy is None)
    assert ward.backend.proofs >= 2


async def test_what_comes_back_and_cannot_be_asked_golden_inputs_proves_nothing(
    ward: Ward,
) -> None:
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy == "away")
    ward.backend.busy, ward.backend.sick = True, None
    await until(lambda: ward.backend.proofs >= 2)
    assert ward.breaker.unhealthy == "429"
    ward.backend.busy, ward.backend.golden = False, False
    await until(lambda: ward.breaker.unhealthy == "no golden inputs in golden.json")
    ward.backend.golden = True
    await until(lambda: ward.breaker.unhealthy is None)


async def test_golden_inputs_may_take_longer_than_a_probe(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = asyncio.Event()

    async def long() -> SelfTest:
        await answered.wait()
        return SelfTest(1.0)

    monkeypatch.setattr(ward.watch, "_prove", long)
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy == "away")
    ward.backend.sick = None
    probes = ward.backend.probes
    await until(lambda: ward.backend.probes > probes)
    await asyncio.wait({ward.watching}, timeout=3 * health.PROBE_WITHIN_S)
    assert ward.backend.probes == probes + 1
    assert ward.breaker.unhealthy == "away"
    answered.set()
    await until(lambda: ward.breaker.unhealthy is None)


async def test_a_self_test_that_hangs_is_never_called_a_probe(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go = asyncio.Event()

    async def deaf() -> SelfTest:
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()
        return SelfTest(1.0)

    monkeypatch.setattr(ward.watch, "_prove", deaf)
    monkeypatch.setattr(health, "PROVE_WITHIN_S", 0.01)
    probed = spy(ward.breaker, monkeypatch)
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy == "away")
    ward.backend.sick = None
    hung = "its self-test does not end within 0.01 s"
    try:
        await until(lambda: hung in probed[:-1])  # it is asked again, and hangs on
    finally:
        let_go.set()
    assert set(probed) <= {"away", hung, None}
    await until(lambda: ward.breaker.unhealthy is None)


def spy(breaker: Breaker, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return what the breaker is told of probes, as it is told."""
    told: list[str | None] = []
    probed = breaker.probed

    def note(why_not: str | None, now_s: float) -> None:
        told.append(why_not)
        probed(why_not, now_s)

    monkeypatch.setattr(breaker, "probed", note)
    return told


async def test_what_waits_on_an_unhealthy_node_is_handed_back_within_its_time(ward: Ward) -> None:
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy is not None)
    ward.outcomes.clear()
    ward.submit(record(9, expires_after_ms=300))
    await until(lambda: len(ward.outcomes) == 1)
    assert ward.outcomes[0].topic == RETRY


async def test_an_outage_alone_ends_no_request(ward: Ward) -> None:
    ward.backend.sick = "away"
    await ward.fail()
    await until(lambda: ward.breaker.unhealthy is not None)
    ward.outcomes.clear()
    ward.submit(record(9, attempt=ATTEMPTS_MAX))
    await until(lambda: ward.backend.probes >= 5)
    assert ward.outcomes == []
    ward.backend.sick = None
    await ward.backend.end("r9")
    assert result_of(ward.outcomes[0]).status is Status.OK


async def test_a_run_that_never_ends_is_found_though_nobody_cancels_it(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a default expiry of a day, a request that hangs would hold its slot for a day."""
    ward.backend.sick = "silent"
    ward.submit(record(0))
    await until(lambda: "r0" in ward.backend.calls)
    monkeypatch.setattr("executors.breaker.OVERDUE_S", 0.05)
    await until(lambda: ward.breaker.unhealthy is not None)
    assert "does not end" in (ward.breaker.unhealthy or "")
    assert OVERDUE_S > 1  # what a node really waits for


async def test_a_probe_that_waits_its_turn_behind_runs_that_end_is_no_failure(
    ward: Ward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PROBE_WITHIN_S", in_time(1))  # in which a run is to end
    ward.backend.sick = "silent"
    await ward.fail()
    await until(lambda: ward.backend.probes == 1)
    ward.submit(record(9))
    await ward.backend.end("r9")
    await until(lambda: not ward.breaker.probe_is_due(asyncio.get_running_loop().time()))
    assert ward.breaker.unhealthy is None


async def test_a_call_that_does_not_stop_keeps_its_slot_but_not_its_request(ward: Ward) -> None:
    ward.backend.deaf = True
    ward.submit(record(0, expires_after_ms=50))
    await until(lambda: len(ward.outcomes) == 1)
    assert result_of(ward.outcomes[0]).status is Status.EXPIRED
    await until(lambda: "hang in the engine" in (ward.breaker.unhealthy or ""))
    assert (ward.dispatcher.busy, ward.dispatcher.hanging) == (1, 1)
    ward.backend.let_go.set()
    await until(lambda: ward.dispatcher.busy == 0 and ward.breaker.unhealthy is None)


async def test_a_partition_is_given_up_in_time_though_its_engine_hangs(ward: Ward) -> None:
    ward.backend.deaf = True
    ward.submit(record(0))
    await until(lambda: "r0" in ward.backend.calls)
    started = time.monotonic()
    await ward.dispatcher.withdraw(ward)
    assert time.monotonic() - started < 10
    assert not ward.dispatcher.running(ward)
    assert ward.outcomes == []


async def test_a_busy_backend_is_not_sick(ward: Ward) -> None:
    async def busy() -> None:
        ward.backend.probes += 1
        raise BackendUnavailable("429") from BackendError(ErrorCategory.OVERLOADED, "429")

    ward.backend.probe = busy  # type: ignore[method-assign]
    await ward.fail()
    await until(lambda: ward.backend.probes == 1)
    await settle()
    assert ward.breaker.unhealthy is None
