"""The dispatcher starts work by urgency, answers for each, and holds no slot while waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop

from executors import dispatcher as dispatching
from executors import retry
from executors.backends.base import BackendError, Completion
from executors.dispatcher import UNWRITTEN_BYTES_MAX, Dispatcher
from executors.outcome import Outcome
from executors.work import Source, read_work
from schemas.headers import Exclusion, Origin, Passage, decode_passage, split_headers
from schemas.outcomes import ErrorCategory, Status
from schemas.topics import RESULTS, RETRY
from tests.unit.executor_doubles import (
    NODE,
    HandBackend,
    PoolRecord,
    make_dispatcher,
    record,
    result_of,
    settle,
)
from tests.waiting import until

NewDispatcher = Callable[..., Dispatcher]


@dataclass(eq=False)
class Inbox:
    """An owner that keeps what it is told."""

    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def finish(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def left_slot(self, error: BaseException | None) -> None:
        if error is not None:
            self.errors.append(error)

    @property
    def ids(self) -> list[str]:
        return [result_of(outcome).id for outcome in self.outcomes]


def submit(
    dispatcher: Dispatcher, inbox: Inbox, *records: PoolRecord, express: bool = False
) -> None:
    for one in records:
        source = Source("p.gpu", 0, one.offset)
        dispatcher.submit(
            read_work(source, one.key, one.value, one.headers, express=express), inbox
        )


def passage_of(outcome: Outcome) -> Passage:
    return decode_passage(split_headers(outcome.headers)[1])


@pytest.fixture
async def new_dispatcher() -> AsyncIterator[NewDispatcher]:
    """Make dispatchers that start nothing once the test is over.

    The loop cancels what still runs; a slot that this frees would be filled on a loop that ends.
    """
    made: list[Dispatcher] = []

    def new(backend: HandBackend, slots: int = 2) -> Dispatcher:
        made.append(make_dispatcher(backend, slots=slots))
        return made[-1]

    yield new
    for dispatcher in made:
        dispatcher.stop_starting()


async def test_work_runs_on_free_slots_and_its_result_reaches_its_owner(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend)
    submit(dispatcher, inbox, record(0))
    await backend.end("r0")
    (outcome,) = inbox.outcomes
    result = result_of(outcome)
    assert (result.status, result.output) == (Status.OK, {"text": "r0"})
    assert result.served_by is not None
    assert (result.served_by.node, result.served_by.backend) == (NODE, "hand")
    assert dispatcher.busy == 0
    assert len(dispatcher.service.read(0.0)) == 1


async def test_batch_leaves_one_slot_to_realtime(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=2)
    submit(dispatcher, inbox, *(record(n, priority="batch") for n in range(3)))
    await settle()
    assert (backend.order, dispatcher.busy) == (["r0"], 1)
    submit(dispatcher, inbox, record(9, priority="realtime"))
    await settle()
    assert backend.order == ["r0", "r9"]


async def test_work_that_yields_starts_in_the_last_slot_when_its_moment_has_come(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=2)
    long = {"priority": "realtime", "yields_ms": 200, "latency_slo_ms": 60_000}
    submit(dispatcher, inbox, record(0, **long), record(1, **long))
    await settle()
    assert backend.order == ["r0"]
    submit(dispatcher, inbox, record(2, priority="realtime"))
    await settle()
    assert backend.order == ["r0", "r2"]
    await backend.end("r2")
    assert dispatcher.busy == 1
    await until(lambda: backend.order == ["r0", "r2", "r1"])


async def test_work_that_yields_starts_at_once_where_no_slot_is_kept(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0, yields_ms=60_000))
    await settle()
    assert dispatcher.busy == 1


async def test_an_unhealthy_node_hands_back_what_yields_too(
    new_dispatcher: NewDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_WITHIN_MS", 0.0)
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=2)
    long = {"priority": "realtime", "yields_ms": 60_000, "latency_slo_ms": 90_000}
    submit(dispatcher, inbox, *(record(number, **long) for number in range(3)))
    await settle()
    dispatcher.suspend("the device is gone")
    assert [outcome.topic for outcome in inbox.outcomes] == [RETRY, RETRY]
    assert dispatcher.queued == 0


async def test_express_work_starts_before_all_that_waits(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, *(record(n) for n in range(3)))
    submit(dispatcher, inbox, record(7, priority="batch"), express=True)
    await backend.end("r0")
    await until(lambda: len(backend.order) == 2)
    assert backend.order == ["r0", "r7"]


async def test_a_final_error_ends_the_request_at_once(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    submit(new_dispatcher(backend), inbox, record(0))
    await backend.end("r0", BackendError(ErrorCategory.CONTEXT_TOO_LONG, "too long"))
    error = result_of(inbox.outcomes[0]).error
    assert error is not None
    assert (error.category, error.message) == (ErrorCategory.CONTEXT_TOO_LONG, "too long")


async def test_overload_is_retried_without_a_slot_and_then_succeeds(
    new_dispatcher: NewDispatcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "BACKOFF_FIRST_MS", 20.0)
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0))
    await backend.end("r0", BackendError(ErrorCategory.OVERLOADED, "busy"))
    assert (dispatcher.busy, dispatcher.queued) == (0, 1)
    submit(dispatcher, inbox, record(1))
    await backend.end("r1")
    await backend.end("r0")
    assert inbox.ids == ["r1", "r0"]


async def test_a_node_that_stays_overloaded_hands_the_request_back(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    submit(new_dispatcher(backend), inbox, record(0))
    before = time.time() * 1000
    await backend.end("r0", BackendError(ErrorCategory.OVERLOADED, "busy", retry_after_ms=60_000))
    (outcome,) = inbox.outcomes
    assert (outcome.topic, outcome.partition) == (RETRY, 2)
    passage = passage_of(outcome)
    assert passage.attempt == 2
    (exclusion,) = passage.excluded
    assert exclusion.node == NODE
    assert exclusion.until_ms >= before + 59_000


async def test_work_that_this_node_refused_waits_until_the_refusal_lapses(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend)
    until_ms = int(time.time() * 1000) + 500
    submit(dispatcher, inbox, record(0, excluded=(Exclusion(NODE, until_ms),)), record(1))
    await backend.end("r1")
    assert (backend.order, dispatcher.busy, dispatcher.queued) == (["r1"], 0, 1)
    await backend.end("r0")
    assert time.time() * 1000 >= until_ms
    assert inbox.ids == ["r1", "r0"]


async def test_too_many_attempts_end_the_request_without_a_run(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    submit(new_dispatcher(backend), inbox, record(0, attempt=retry.ATTEMPTS_MAX + 1))
    error = result_of(inbox.outcomes[0]).error
    assert error is not None
    assert error.category is ErrorCategory.ATTEMPTS_EXHAUSTED
    assert backend.order == []


async def test_what_expires_in_the_heap_needs_no_slot(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0), record(1, expires_after_ms=30))
    await until(lambda: len(inbox.outcomes) == 1)
    assert result_of(inbox.outcomes[0]).status is Status.EXPIRED
    assert (backend.order, dispatcher.queued) == (["r0"], 0)


async def test_what_has_expired_when_it_comes_is_not_run(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    submit(new_dispatcher(backend, slots=1), inbox, record(0, expires_after_ms=0.001))
    await until(lambda: len(inbox.outcomes) == 1)
    assert result_of(inbox.outcomes[0]).status is Status.EXPIRED
    assert backend.order == []


async def test_steady_arrivals_do_not_put_off_what_expires(
    new_dispatcher: NewDispatcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatching, "EXPIRY_SCAN_S", 0.05)
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0), record(1, priority="batch", expires_after_ms=20))
    for number in range(2, 100):
        submit(dispatcher, inbox, record(number))
        await asyncio.sleep(0.005)
        if inbox.outcomes:
            break
    assert inbox.ids == ["r1"]


async def test_work_that_is_due_while_all_slots_are_taken_costs_nothing_until_one_is_free(
    new_dispatcher: NewDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakes = 0
    wake = Dispatcher._wake

    def counted(dispatcher: Dispatcher) -> None:
        nonlocal wakes
        wakes += 1
        wake(dispatcher)

    monkeypatch.setattr(Dispatcher, "_wake", counted)
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    until_ms = int(time.time() * 1000) + 20
    submit(dispatcher, inbox, record(0), record(1, excluded=(Exclusion(NODE, until_ms),)))
    await until(lambda: time.time() * 1000 > until_ms + 50)
    assert wakes <= 2
    await backend.end("r0")
    await backend.end("r1")
    assert inbox.ids == ["r0", "r1"]


def test_a_timer_that_is_due_at_once_is_replaced_in_the_loop_that_nodes_run_in() -> None:
    """Uvloop gives a handle without a time for it, which asyncio's own loop never does."""

    async def hand_over() -> None:
        backend, inbox = HandBackend(), Inbox()
        dispatcher = make_dispatcher(backend, slots=1)
        soon = Exclusion(NODE, int(time.time() * 1000) + 1)
        submit(dispatcher, inbox, *(record(n, excluded=(soon,)) for n in range(3)))
        for number in range(3):
            await backend.end(f"r{number}")
        assert sorted(inbox.ids) == ["r0", "r1", "r2"]
        dispatcher.stop_starting()

    for _ in range(20):
        uvloop.run(hand_over())


async def test_what_expires_in_a_slot_is_cancelled_there(new_dispatcher: NewDispatcher) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    for number, expires_after_ms in enumerate((30, 300, 3_000)):
        submit(dispatcher, inbox, record(number, expires_after_ms=expires_after_ms))
        await until(lambda number=number: len(inbox.outcomes) > number)
        if backend.order:  # on a busy machine it may expire before it gets its slot
            break
    assert backend.cancelled == backend.order
    result = result_of(inbox.outcomes[-1])
    assert result.status is Status.EXPIRED
    assert result.served_by is not None
    assert result.cost > 0
    await until(lambda: dispatcher.busy == 0)


async def test_whatever_an_engine_raises_the_request_is_handed_back(
    new_dispatcher: NewDispatcher,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    submit(new_dispatcher(backend), inbox, record(0))
    await backend.end("r0", ZeroDivisionError("bug"))
    assert inbox.outcomes[0].topic == RETRY
    assert [record.__dict__["request_id"] for record in caplog.records] == ["r0"]


@pytest.mark.parametrize("output", [{"set": {1}}, {"data": [0.5, float("nan")]}, "text"])
async def test_an_answer_that_cannot_be_written_is_the_engines_fault(
    new_dispatcher: NewDispatcher, output: Any
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend)
    submit(dispatcher, inbox, record(0, priority="batch"))
    await until(lambda: "r0" in backend.calls)
    backend.calls["r0"].set_result(Completion(output))
    await until(lambda: len(inbox.outcomes) == 1)
    assert inbox.outcomes[0].topic == RETRY
    assert inbox.errors == []


async def test_withdrawing_cancels_what_runs_and_forgets_what_waits(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox, other = HandBackend(), Inbox(), Inbox()
    dispatcher = new_dispatcher(backend, slots=2)
    submit(dispatcher, inbox, record(0, priority="realtime"), record(1))
    submit(dispatcher, other, record(2))
    await settle()
    await dispatcher.withdraw(inbox)
    assert set(backend.cancelled) == {"r0", "r1"}
    assert inbox.outcomes == []
    assert not dispatcher.running(inbox)
    await backend.end("r2")
    assert other.ids == ["r2"]


async def test_withdrawing_what_was_just_started_frees_its_slot(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0))
    await dispatcher.withdraw(inbox)
    await settle()
    assert dispatcher.busy == 0
    assert not dispatcher.running(inbox)


async def test_after_stop_starting_what_runs_ends_and_nothing_begins(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend, slots=1)
    submit(dispatcher, inbox, record(0), record(1))
    await until(lambda: "r0" in backend.calls)
    dispatcher.stop_starting()
    await backend.end("r0")
    assert inbox.ids == ["r0"]
    assert backend.order == ["r0"]


async def test_nothing_starts_while_too_much_waits_for_the_broker(
    new_dispatcher: NewDispatcher,
) -> None:
    backend, inbox = HandBackend(), Inbox()
    dispatcher = new_dispatcher(backend)
    source = Source("p.gpu", 0, 0)
    huge = Outcome(source, Origin(*source), RESULTS, None, b"x" * UNWRITTEN_BYTES_MAX, ())
    dispatcher.deliver(huge, inbox)
    submit(dispatcher, inbox, record(1))
    await settle()
    assert backend.order == []
    dispatcher.written(huge.size)
    await backend.end("r1")
    assert backend.order == ["r1"]
