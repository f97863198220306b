"""The backends that need no server: the contract, and what each promises beside."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.local.tiny_model import CONTEXT, MODEL_NAME, MODEL_PATH
from executors.backends.base import Call, SelfTest
from executors.backends.emulated import MARK, Emulated
from executors.backends.golden import Golden
from executors.backends.llama import Llama
from executors.backends.paced import Paced
from executors.backends.profile import Profile
from executors.backends.registry import make_backend
from executors.settings import NodeOptions
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory
from tests.unit import backend_contract as contract
from tests.unit.backend_contract import SLOTS, TENSORS, BackendContract, refusal
from tests.waiting import in_time, until

PROMPT = {"prompt": "The with statement", "max_tokens": 8, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "What is a list?"}], "max_tokens": 8}
EMBED = {"input": ["a list", "a tuple"]}
MODEL: dict[str, Any] = {"model_name": MODEL_NAME, "model_path": MODEL_PATH}
FOREVER = {"prompt": "The", "max_tokens": CONTEXT, "ignore_eos": True}


def call(
    payload: Mapping[str, object], model: str = MODEL_NAME, adapter: str | None = None
) -> Call:
    return contract.call(payload, model, adapter)


def options(backend: str, **others: object) -> NodeOptions:
    return NodeOptions(pool="gpu", backend=backend, slots=2, options=others)


def llama(path: Path = MODEL_PATH) -> Llama:
    return Llama(MODEL_NAME, path, slots=SLOTS, context_tokens=CONTEXT, threads=1)


@pytest.fixture(scope="module")
def engine() -> Iterator[Llama]:
    made = llama()
    asyncio.run(made.start())
    yield made
    asyncio.run(made.close())


class TestEmulated(BackendContract):
    kind = "emulated"
    model = MODEL_NAME
    answered = (PROMPT, CHAT, EMBED, TENSORS)
    malformed = ({"prompt": "x", "max_tokens": "many"},)
    makes_it_up = True

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"profile": "fixed:1"}

    @pytest.fixture
    def lacking(self) -> dict[str, Any] | None:
        return None


class TestLlama(BackendContract):
    kind = "llama"
    model = MODEL_NAME
    answered = (PROMPT, CHAT, EMBED)
    malformed = (
        {"prompt": "x", "max_tokens": "many"},
        {"prompt": []},
        {"prompt": "x", "grammar": "root ::= ("},
        {"messages": "hi"},
        {"messages": [{}]},
        {"input": 5},
    )
    foreign = (TENSORS,)

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return MODEL

    @pytest.fixture
    def lacking(self, tmp_path: Path) -> dict[str, Any] | None:
        return {**MODEL, "model_path": tmp_path / "none.gguf"}


async def test_emulated_answers_say_so_and_take_the_profiles_time() -> None:
    made = Emulated(Profile(fixed_ms=40), "emulated npu")
    started = time.perf_counter()
    text = (await made.infer(call(PROMPT))).output["choices"][0]["text"]
    assert time.perf_counter() - started >= 0.04
    assert text.startswith(MARK)
    assert made.info.emulated
    tensors = (await made.infer(call(TENSORS))).output["outputs"]
    assert tensors[0]["data"][0].startswith(MARK)


async def test_the_emulated_self_test_takes_no_emulated_time() -> None:
    started = time.perf_counter()
    assert await Emulated(Profile(fixed_ms=5000), "d").self_test() == SelfTest(5000)
    assert time.perf_counter() - started < 1


async def test_emulated_slots_share_the_device_by_the_batch_curve() -> None:
    made = Emulated(Profile(fixed_ms=20, batch_curve=((1, 1.0), (2, 4.0))), "d")
    started = time.perf_counter()
    await asyncio.gather(made.infer(call(PROMPT)), made.infer(call(PROMPT)))
    assert time.perf_counter() - started >= 0.08


async def test_paced_text_is_the_engines_own_at_the_profiles_speed(engine: Llama) -> None:
    paced = Paced(engine, Profile(fixed_ms=150), "emulated gpu")
    true = await engine.infer(call(PROMPT))
    started = time.perf_counter()
    slow = await paced.infer(call(PROMPT))
    assert time.perf_counter() - started >= 0.15
    assert slow.output["choices"] == true.output["choices"]
    assert (paced.info.device, paced.info.emulated) == ("emulated gpu", True)
    assert not engine.info.emulated
    assert (await paced.self_test()).took_ms >= 150


async def test_llama_takes_no_engine_fields_from_callers(
    engine: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine would take a caller's adapter ids and slots without a word."""
    seen: list[dict[str, object]] = []

    class Engine:
        def handle_embeddings(self, body: dict[str, object]) -> dict[str, object]:
            seen.append(body)
            return {"data": [{"embedding": [0.0]}], "usage": {"prompt_tokens": 1}}

    monkeypatch.setattr(engine, "_server", Engine())
    sly = {**EMBED, "lora": [{"id": 7, "scale": 1.0}], "model": "gpt", "id_slot": 99, "user": "u"}
    await engine.infer(call(sly))
    assert seen == [{"input": one, "user": "u"} for one in EMBED["input"]]


@pytest.mark.parametrize("payload", [{"prompt": "list " * 2000}, {"input": "list " * 2000}])
async def test_llama_says_when_the_context_is_too_small(
    engine: Llama, payload: dict[str, object]
) -> None:
    assert await refusal(engine, call(payload)) is ErrorCategory.CONTEXT_TOO_LONG


async def test_llama_runs_as_many_at_once_as_it_has_slots(engine: Llama) -> None:
    many = await asyncio.gather(*(engine.infer(call(PROMPT)) for _ in range(4 * SLOTS)))
    assert len({one.output["choices"][0]["text"] for one in many}) == 1


async def test_cancelling_stops_llama_before_it_returns(engine: Llama) -> None:
    started = time.perf_counter()
    await engine.infer(call(FOREVER))
    whole = time.perf_counter() - started
    started = time.perf_counter()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(engine.infer(call(FOREVER)), whole / 20)
    assert time.perf_counter() - started < whole / 2


async def test_several_choices_are_all_counted(engine: Llama) -> None:
    two = await engine.infer(call({**PROMPT, "n": 2}))
    assert [choice["index"] for choice in two.output["choices"]] == [0, 1]
    assert two.usage is not None
    assert two.usage["completion_tokens"] == 16


async def test_a_missing_or_broken_model_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="no file"):
        await llama(tmp_path / "none.gguf").start()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(MODEL_PATH.read_bytes()[:100_000])
    with pytest.raises(BackendUnavailable, match=r"cannot load .*not within the file bounds"):
        await llama(broken).start()


async def test_a_model_at_which_the_engine_aborts_is_refused_with_its_last_words(
    tmp_path: Path,
) -> None:
    """The engine asserts that no two tokens are the same: in this process it would end the node."""
    token = b"\x01" + bytes(7)
    twins = tmp_path / "twins.gguf"
    twins.write_bytes(MODEL_PATH.read_bytes().replace(token + b"D", token + b"C", 1))
    with pytest.raises(BackendUnavailable, match=r"died \(SIGABRT\): .*GGML_ASSERT"):
        await llama(twins).start()


async def test_a_model_whose_weights_are_no_numbers_fails_the_self_test(tmp_path: Path) -> None:
    """The engine answers, and the same words each time; golden inputs would blame the device."""
    whole = MODEL_PATH.read_bytes()
    half = len(whole) // 2
    broken = tmp_path / "nan.gguf"
    broken.write_bytes(whole[:half] + b"\xff" * (len(whole) - half))
    made = llama(broken)
    await made.start()
    output = {"choices": [{"text": "words"}]}
    made._golden = (Golden(PROMPT, output),)
    with pytest.raises(BackendUnavailable, match="tiny-docs computes no numbers"):
        await made.self_test()
    await made.close()


async def test_llama_tells_what_its_model_is_and_is_believed_by_its_golden_answers(
    engine: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    (proven,) = (await engine.self_test()).proven
    assert (proven.precision, proven.context_tokens, proven.golden_error) == ("q8_0", CONTEXT, None)
    output = (await engine.infer(call(PROMPT))).output
    monkeypatch.setattr(engine, "_golden", (Golden(PROMPT, output),))
    (proven,) = (await engine.self_test()).proven
    assert proven.golden_error == 0
    output["choices"][0]["text"] = "another " + output["choices"][0]["text"]
    with pytest.raises(BackendUnavailable, match="golden error"):
        await engine.self_test()


async def test_an_embedding_is_computed_beside_steady_generation() -> None:
    """The engine goes on with what it generates as long as there is any."""
    made = Llama(MODEL_NAME, MODEL_PATH, slots=8, context_tokens=CONTEXT, threads=1)
    await made.start()

    ended = 0

    async def generate(tokens: int) -> None:
        nonlocal ended
        while True:
            await made.infer(call({**PROMPT, "max_tokens": tokens, "ignore_eos": True}))
            ended += 1

    generating = [asyncio.ensure_future(generate(60 + 20 * number)) for number in range(7)]
    await until(lambda: ended > 0)
    embedding = asyncio.ensure_future(made.infer(call({"input": "hello"})))
    done, _ = await asyncio.wait({embedding}, timeout=in_time(15))
    for task in generating:
        task.cancel()
    await asyncio.gather(*generating, return_exceptions=True)
    await embedding
    await made.close()
    assert done
    assert not any(task.done() and not task.cancelled() for task in generating)


def test_llama_uses_no_more_threads_than_the_process_may() -> None:
    greedy = Llama(MODEL_NAME, MODEL_PATH, slots=1, context_tokens=CONTEXT, threads=999)
    assert greedy._threads == len(os.sched_getaffinity(0))


def test_backends_are_made_by_name() -> None:
    assert isinstance(make_backend(options("emulated", profile="fixed:5")), Emulated)
    assert isinstance(make_backend(options("llama", **MODEL)), Llama)
    paced = make_backend(options("llama", profile="fixed:5", device="emulated npu", **MODEL))
    assert isinstance(paced, Paced)
    assert paced.info.device == "emulated npu"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (options("magic"), "available are: .*llama"),
        (options("emulated"), "--profile"),
        (options("llama"), r"backends\.llama\.model_name"),
        (options("emulated", profile="fixed:5", colour="red"), r"backends\.emulated\.colour"),
    ],
)
def test_what_is_missing_is_said(wrong: NodeOptions, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make_backend(wrong)
