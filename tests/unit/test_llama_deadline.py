"""A request that runs out of time is stopped in the real engine, not only given up."""

from __future__ import annotations

import asyncio
import time

from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH
from executors.backends.base import Call
from executors.backends.llama import Llama
from executors.outcome import Outcome
from executors.work import Source, read_work
from schemas.outcomes import Status
from tests.unit.executor_doubles import make_dispatcher, record, result_of
from tests.waiting import until

PAYLOAD = {"prompt": "The", "max_tokens": CONTEXT, "ignore_eos": True}
TRIES = 10
"""A busy machine may end a request before it begins, or stand still while it runs."""


class Inbox:
    """An owner that keeps what it is told."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def finish(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    def left_slot(self, error: BaseException | None) -> None:
        assert error is None


async def test_a_request_that_expires_while_it_runs_is_stopped_in_the_engine() -> None:
    engine = Llama(
        MODEL_NAME, MODEL_PATH, adapters=ADAPTERS, slots=1, context_tokens=CONTEXT, threads=1
    )
    await engine.start()

    def processing() -> bool:
        return "llamacpp:requests_processing 0" not in engine._server.handle_metrics()

    started = time.perf_counter()
    await engine.infer(Call("r", MODEL_NAME, "code", PAYLOAD))
    third_ms = int((time.perf_counter() - started) * 1000 / 3)
    dispatcher = make_dispatcher(engine, slots=1)
    for number in range(TRIES):
        inbox = Inbox()
        one = record(
            number,
            model_name=MODEL_NAME,
            adapter="code",
            payload=PAYLOAD,
            expires_after_ms=third_ms,
        )
        source = Source("p.gpu", 0, number)
        dispatcher.submit(read_work(source, one.key, one.value, one.headers, express=False), inbox)
        seen_at_work = False
        while not inbox.outcomes:
            seen_at_work = seen_at_work or (processing() and dispatcher.busy == 1)
            await asyncio.sleep(0.002)
        await until(lambda: dispatcher.busy == 0 and not processing())
        result = result_of(inbox.outcomes[0])
        if result.status is Status.EXPIRED and seen_at_work:
            break
    assert (result.status, result.output, seen_at_work) == (Status.EXPIRED, None, True)
    assert result.served_by is not None
    assert result.served_by.adapter == "code"
    dispatcher.stop_starting()
    await engine.close()
