"""Backend `openai`: the contract on a real llama.cpp server, every fault on one that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH
from executors import retry
from executors.backends import http
from executors.backends.base import Backend, BackendError, Call
from executors.backends.llama import Llama
from executors.backends.registry import make_backend
from runtime.ports import free_port
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import Disposition, ErrorCategory, Status
from schemas.topics import MIB, RESULTS, RETRY
from tests.llama_server import llama_server
from tests.unit.backend_contract import SLOTS, TENSORS, BackendContract, call, node_of, refusal
from tests.unit.executor_doubles import make_dispatcher, record, result_of
from tests.unit.fault_server import FAULTS, GOOD, KEY, FaultServer, fault_server
from tests.unit.test_executor_dispatcher import Inbox, passage_of, submit
from tests.waiting import in_time, until

PROMPT = {"prompt": "The with statement", "max_tokens": 8, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "What is a list?"}], "max_tokens": 8}
EMBED = {"input": ["a list", "a tuple"]}
FOREVER = {"prompt": "The", "max_tokens": CONTEXT, "ignore_eos": True}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama_server() as at:
        yield at


@pytest.fixture
async def faults() -> AsyncIterator[FaultServer]:
    async with fault_server() as server:
        yield server


@pytest.fixture
async def faulty(faults: FaultServer, tmp_path: Path) -> AsyncIterator[Backend]:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    made = openai(url=faults.url, run_within_s=in_time(2), api_key_file=key)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
async def live(url: str) -> AsyncIterator[Backend]:
    made = openai(url=url)
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a server that is not there, and that nobody waits for."""
    monkeypatch.setattr(http, "READY_WITHIN_S", 0.0)
    return f"http://127.0.0.1:{free_port()}/v1"


def openai(**options: Any) -> Backend:
    return make_backend(node_of("openai", options))


class TestOpenAI(BackendContract):
    kind = "openai"
    model = MODEL_NAME
    answered = (PROMPT, CHAT, EMBED)
    malformed = (
        {"prompt": "x", "max_tokens": "many"},
        {"prompt": []},
        {"messages": "hi"},
        {"messages": [{}]},
        {"input": 5},
    )
    foreign = (TENSORS,)

    @pytest.fixture
    def options(self, url: str) -> dict[str, Any]:
        return {"url": url}

    @pytest.fixture
    def lacking(self, nowhere: str) -> dict[str, Any] | None:
        return {"url": nowhere}


async def test_what_the_server_says_of_its_model_is_in_its_capability(live: Backend) -> None:
    (proven,) = (await live.self_test()).proven
    assert (proven.model, proven.precision, proven.context_tokens) == (MODEL_NAME, "q8_0", CONTEXT)
    assert live.info.engine.startswith("llama.cpp")


async def test_the_server_and_the_engine_in_the_node_tell_the_same_tokenizer(
    live: Backend, faulty: Backend
) -> None:
    here = Llama(MODEL_NAME, MODEL_PATH, slots=1, context_tokens=CONTEXT, threads=1)
    await here.start()
    (own,), (servers,) = (await here.self_test()).proven, (await live.self_test()).proven
    assert own.tokenizer_digest == servers.tokenizer_digest
    assert (own.tokenizer_digest or "").startswith("sha256:")
    await here.close()
    assert {one.tokenizer_digest for one in (await faulty.self_test()).proven} == {None}


async def test_tokenizers_are_asked_in_the_order_of_the_listing(
    faulty: Backend, faults: FaultServer
) -> None:
    assert tuple(faults.tokenizers) == faulty.info.models == (GOOD, *FAULTS)


async def test_each_adapter_of_a_real_server_is_applied_to_whom_it_was_named_for(
    live: Backend,
) -> None:
    """The server would apply all three to everyone, and say 200."""
    here = Llama(
        MODEL_NAME, MODEL_PATH, slots=1, context_tokens=CONTEXT, threads=1, adapters=ADAPTERS
    )
    await here.start()
    assert live.info.adapters == tuple(ADAPTERS)
    said = set()
    for adapter in (None, *ADAPTERS):
        one = call(PROMPT, MODEL_NAME, adapter)
        there, true = await live.infer(one), await here.infer(one)
        text = there.output["choices"][0]["text"]
        assert text == true.output["choices"][0]["text"]
        said.add(text)
    assert len(said) == 1 + len(ADAPTERS)
    embedding = call(EMBED, MODEL_NAME, "legal")
    assert await refusal(live, embedding) is ErrorCategory.ADAPTER_NOT_FOUND
    await here.close()


async def test_a_server_is_believed_by_its_golden_answers(
    live: Backend, url: str, tmp_path: Path
) -> None:
    output = (await live.infer(call(PROMPT, MODEL_NAME))).output
    golden = tmp_path / "golden.json"
    golden.write_bytes(orjson.dumps([{"payload": PROMPT, "output": output}]))
    made = openai(url=url, golden={MODEL_NAME: str(golden)})
    await made.start()
    (proven,) = (await made.self_test()).proven
    assert proven.golden_error == 0
    await made.close()
    output["choices"][0]["text"] = "another " + output["choices"][0]["text"]
    golden.write_bytes(orjson.dumps([{"payload": PROMPT, "output": output}]))
    made = openai(url=url, golden={MODEL_NAME: str(golden)})
    await made.start()
    with pytest.raises(BackendUnavailable, match="golden error"):
        await made.self_test()
    await made.close()


async def test_the_time_to_the_first_token_is_measured_of_what_streams(live: Backend) -> None:
    started = time.perf_counter()
    whole = await live.infer(call({**FOREVER, "max_tokens": 200}, MODEL_NAME))
    took_ms = (time.perf_counter() - started) * 1000
    assert whole.first_token_ms is not None
    assert 0 < whole.first_token_ms < took_ms / 2
    assert (await live.infer(call(EMBED, MODEL_NAME))).first_token_ms is None


async def test_the_context_of_a_real_server_is_told_from_a_bad_request(live: Backend) -> None:
    long = call({"prompt": "list " * 2000}, MODEL_NAME)
    assert await refusal(live, long) is ErrorCategory.CONTEXT_TOO_LONG


async def test_a_call_that_is_cancelled_stops_in_the_server(live: Backend) -> None:
    async def running() -> int:
        load = await live.load()
        assert load is not None
        return load.running or 0

    async def busy() -> bool:
        return await running() > 0

    async def idle() -> bool:
        return await running() == 0

    endless = {**FOREVER, "max_tokens": -1, "n_predict": -1}
    for _ in range(3):  # more than it has slots: those of the first are free again
        going = asyncio.ensure_future(live.infer(call(endless, MODEL_NAME)))
        await until(lambda going=going: busy() if not going.done() else _true())
        going.cancel()
        await asyncio.wait({going})
        await until(idle)


async def _true() -> bool:
    return True


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_is_one_record_of_the_right_category_and_frees_its_slot(
    fault: str, faulty: Backend, faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_WITHIN_MS", 0.0)  # else it tries for 10 s
    category = FAULTS[fault]
    inbox = Inbox()
    dispatcher = make_dispatcher(faulty, slots=SLOTS)
    for attempt in (1, retry.ATTEMPTS_MAX):
        submit(dispatcher, inbox, record(0, attempt=attempt, model_name=fault))
        await until(lambda: bool(inbox.outcomes) and not dispatcher.busy, within_s=in_time(20))
        (outcome,) = inbox.outcomes
        inbox.outcomes.clear()
        if category.disposition is Disposition.FINAL:
            assert outcome.topic == RESULTS
            assert error_of(outcome)[0] is category
        elif attempt == 1:
            assert outcome.topic == RETRY
            (said,) = passage_of(outcome).refusals
            assert said.why.startswith(category.value)
        else:
            assert outcome.topic == RESULTS
            assert error_of(outcome)[0] is ErrorCategory.ATTEMPTS_EXHAUSTED
            assert category.value in error_of(outcome)[1]
        assert KEY.encode() not in (outcome.value or b"")
        assert b"Traceback" not in (outcome.value or b"")
    submit(dispatcher, inbox, *(record(n, model_name=GOOD) for n in range(1, 1 + 4 * SLOTS)))
    await until(lambda: len(inbox.outcomes) == 4 * SLOTS and not dispatcher.busy)
    assert {result_of(outcome).status for outcome in inbox.outcomes} == {Status.OK}
    await until(lambda: faults.open == 0)
    dispatcher.stop_starting()


def error_of(outcome: Any) -> tuple[ErrorCategory, str]:
    error = result_of(outcome).error
    assert error is not None
    return error.category, error.message


async def test_a_server_that_has_gone_is_unavailable(faults: FaultServer, nowhere: str) -> None:
    made = openai(url=faults.url)
    await made.start()
    made._server.url = nowhere  # type: ignore[attr-defined]  as if it had ended
    assert await refusal(made, call(PROMPT, GOOD)) is ErrorCategory.UNAVAILABLE
    await made.close()


async def test_an_answer_that_falls_silent_is_given_up_long_before_its_time(
    faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = openai(url=faults.url)
    await made.start()
    monkeypatch.setattr(http, "SILENCE_S", 0.2)
    silent = asyncio.wait_for(refusal(made, call(PROMPT, "silent")), in_time(10))
    assert await silent is ErrorCategory.UNAVAILABLE
    await until(lambda: faults.open == 0)
    await made.close()


async def test_retry_after_travels(faulty: Backend) -> None:
    with pytest.raises(BackendError) as caught:
        await faulty.infer(call(PROMPT, "http-429"))
    assert caught.value.retry_after_ms == 7000


async def test_redirects_are_not_followed(faulty: Backend, faults: FaultServer) -> None:
    await refusal(faulty, call(PROMPT, "redirect"))
    assert "/elsewhere" not in faults.paths


async def test_of_a_huge_answer_only_what_may_be_is_read(
    faulty: Backend, faults: FaultServer
) -> None:
    await refusal(faulty, call(PROMPT, "huge"))
    await until(lambda: faults.open == 0)
    assert faults.sent < 32 * MIB


async def test_the_callers_engine_fields_are_not_passed_on(
    faulty: Backend, faults: FaultServer
) -> None:
    sly = {**PROMPT, "model": "http-500", "priority": -9, "lora": [{"id": 1}], "id_slot": 1}
    await faulty.infer(call(sly, GOOD))
    assert faults.asked[-1] == {
        **PROMPT, "model": GOOD, "stream": True, "stream_options": {"include_usage": True},
    }  # fmt: skip


async def test_sglang_is_told_of_an_adapter_by_its_path(faults: FaultServer) -> None:
    made = openai(url=faults.url, models=[GOOD], server="sglang", adapters=["poems"])
    await made.start()
    await made.infer(call(PROMPT, GOOD, "poems"))
    assert (faults.asked[-1]["model"], faults.asked[-1]["lora_path"]) == (GOOD, "poems")
    await made.infer(call({**PROMPT, "lora_path": "theirs"}, GOOD))
    assert "lora_path" not in faults.asked[-1]
    await made.close()


async def test_a_node_waits_for_a_server_that_is_still_loading(
    faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ASK_AGAIN_S", 0.01)
    asked = 0

    class Loading(http.Server):
        async def document(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
            nonlocal asked
            asked += 1
            if asked < 3:
                raise BackendError(ErrorCategory.OVERLOADED, "Loading model")
            return await super().document(path, body)

    server = Loading(faults.url, {}, 2)
    await server.open()
    assert (await http.when_ready(server, "models"))["data"]
    await server.close()


async def test_a_model_that_the_server_does_not_list_is_not_served(faults: FaultServer) -> None:
    made = openai(url=faults.url, models=["gpt-9"])
    with pytest.raises(BackendUnavailable, match="serves no model gpt-9; it lists: good"):
        await made.start()
    await made.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "needs --url"),
        ({"url": "localhost:8000/v1"}, "http://host:port"),
        ({"url": "http://me:secret@host/v1"}, "no user"),
        ({"url": "http://h/v1", "api_key_file": "/none"}, "/none"),
        ({"url": "http://h/v1", "priority_order": "up"}, "priority_order"),
    ],
)
def test_what_is_told_wrongly_is_said(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        openai(**options)
    assert "secret" not in str(caught.value)


async def test_a_key_goes_with_each_request_and_into_no_message(
    faulty: Backend, faults: FaultServer
) -> None:
    with pytest.raises(BackendError) as caught:
        await faulty.infer(Call("r", "http-401", None, dict(PROMPT)))
    assert faults.keys == {f"Bearer {KEY}"}
    assert KEY not in caught.value.message
    assert "check its key" in caught.value.message
