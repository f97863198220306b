"""`llama` applies the adapter a request names and no other, and says no to what it lacks."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH
from executors.backends import llama_trial
from executors.backends.base import BackendError, Call
from executors.backends.llama import Llama
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory
from tests.waiting import until

SLOTS = 4
RUNS = 6
"""One run may meet a busy moment of the machine."""
KINDS = {
    "code": r"self\.|from \.|def |import ",
    "news": r"bpo-\d+",
    "legal": r"[A-Z]{4,} [A-Z]{2,}|license|[Aa]greement|copyright",
}
"""What one finds in the text of one adapter and never in the manual's."""


def llama(**adapters: Path) -> Llama:
    return Llama(
        MODEL_NAME, MODEL_PATH, adapters=adapters, slots=SLOTS, context_tokens=CONTEXT, threads=1
    )


@pytest.fixture(scope="module")
def engine() -> Iterator[Llama]:
    made = llama(**ADAPTERS)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.close())


async def say(engine: Llama, adapter: str | None, prompt: str = "The with statement") -> str:
    payload = {"prompt": prompt, "max_tokens": 40, "temperature": 0}
    answer = await engine.infer(Call("r", MODEL_NAME, adapter, payload))
    text: str = answer.output["choices"][0]["text"]
    return text


def alike(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


async def refusal(engine: Llama, call: Call) -> ErrorCategory:
    with pytest.raises(BackendError) as caught:
        await engine.infer(call)
    return caught.value.category


def test_each_adapter_is_a_few_hundred_kilobytes() -> None:
    assert all(50_000 < path.stat().st_size < 400_000 for path in ADAPTERS.values())


async def test_each_adapter_writes_its_own_kind_of_text(engine: Llama) -> None:
    for adapter in (None, *ADAPTERS):
        text = await say(engine, adapter)
        found = {kind for kind, pattern in KINDS.items() if re.search(pattern, text)}
        assert found == ({adapter} if adapter else set()), text


async def test_adapters_side_by_side_and_in_turn_say_what_they_say_alone(engine: Llama) -> None:
    """The engine keeps what it computed of a prompt: another adapter must not be given that."""
    alone = {adapter: await say(engine, adapter) for adapter in (None, *ADAPTERS)}
    asked = [*alone] * 3
    together = await asyncio.gather(*(say(engine, adapter) for adapter in asked))
    # Not letter for letter to the end: sums are rounded otherwise in a batch of other sizes, and
    # where two tokens are as likely the text then goes another way.
    begins_as = [max(alone, key=lambda adapter: alike(text, alone[adapter])) for text in together]
    assert begins_as == asked


async def test_chat_takes_an_adapter_too(engine: Llama) -> None:
    payload = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 40, "temperature": 0}
    texts = {
        (await engine.infer(Call("r", MODEL_NAME, adapter, payload))).output["choices"][0][
            "message"
        ]["content"]
        for adapter in (None, *ADAPTERS)
    }
    assert len(texts) == 4


async def test_an_adapter_it_lacks_or_cannot_apply_is_refused(engine: Llama) -> None:
    prompt, embed = {"prompt": "x", "max_tokens": 1}, {"input": "x"}
    for adapter, payload in (("poems", prompt), ("code", embed)):
        call = Call("r", MODEL_NAME, adapter, payload)
        assert await refusal(engine, call) is ErrorCategory.ADAPTER_NOT_FOUND


async def test_its_report_lists_the_adapters_and_says_that_they_were_tried(engine: Llama) -> None:
    assert engine.info.adapters == ("code", "news", "legal")
    (capability,) = (await engine.self_test()).proven
    assert capability.lora


async def test_an_adapter_that_changes_nothing_fails_the_self_test(
    engine: Llama, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def same(_: str | None) -> str:
        return "the same words"

    monkeypatch.setattr(engine, "_say", same)
    with pytest.raises(BackendUnavailable, match="adapter code of tiny-docs changes nothing"):
        await engine.self_test()


async def test_an_adapter_file_that_is_missing_or_none_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="no file"):
        await llama(code=tmp_path / "none.gguf").start()
    with pytest.raises(BackendUnavailable, match="cannot load"):
        await llama(code=MODEL_PATH).start()


async def test_an_adapter_whose_file_is_broken_is_the_reason(tmp_path: Path) -> None:
    whole = ADAPTERS["news"].read_bytes()
    half = len(whole) // 2
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole[:half])
    with pytest.raises(BackendUnavailable, match=r"\(broken.gguf: .*LoRA tensor"):
        await llama(code=ADAPTERS["code"], news=broken).start()
    broken.write_bytes(whole[:half] + b"\xff" * (len(whole) - half))  # it loads and "changes" text
    made = llama(code=ADAPTERS["code"], news=broken)
    await made.start()
    with pytest.raises(BackendUnavailable, match="adapter news of tiny-docs computes no numbers"):
        await made.self_test()
    await made.close()


def test_each_adapter_is_run_in_the_process_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    class Engine:
        def handle_completions(
            self, body: dict[str, Any], take: Callable[[dict[str, Any]], bool]
        ) -> None:
            tried.append([one["id"] for one in body.get("lora", ()) if one["scale"]])
            if tried[-1] == [1]:
                take({"error": {"code": 500, "message": "no kernel for its rank"}})
            take({"choices": [{"text": "x", "finish_reason": "length"}]})

        def handle_embeddings(self, _: dict[str, Any]) -> dict[str, Any]:
            return {"data": [], "usage": {"prompt_tokens": 1}}

    monkeypatch.setattr(llama_trial, "load_engine", lambda *_, **__: Engine())
    adapters = {name: str(path) for name, path in ADAPTERS.items()}
    told = {"model": "m", "path": "", "slots": 1, "context_tokens": 9, "threads": 1}
    with pytest.raises(BackendUnavailable, match=r"adapter news of m fails .* no kernel"):
        llama_trial.prove({**told, "adapters": adapters})
    assert tried == [[], [0], [1]]


async def test_many_inputs_are_embedded_in_order_and_counted(engine: Llama) -> None:
    texts = ["a list", "a tuple", "a list"]
    answer = await engine.infer(Call("r", MODEL_NAME, None, {"input": texts}))
    data = answer.output["data"]
    assert [one["index"] for one in data] == [0, 1, 2]
    assert data[0]["embedding"] == data[2]["embedding"] != data[1]["embedding"]
    single = await engine.infer(Call("r", MODEL_NAME, None, {"input": "a list"}))
    assert single.usage is not None
    assert answer.usage is not None
    assert answer.usage["prompt_tokens"] > 2 * single.usage["prompt_tokens"]


@pytest.mark.parametrize(
    "payload",
    [
        {"prompt": "The", "max_tokens": CONTEXT, "ignore_eos": True},
        {"messages": [{"role": "user", "content": "A"}], "max_tokens": 500, "ignore_eos": True},
        {"input": ["a list " * 60] * 60},
    ],
    ids=["completion", "chat", "embeddings"],
)
async def test_cancelling_frees_the_engine_long_before_it_would_have_ended(
    engine: Llama, payload: dict[str, object]
) -> None:
    def busy() -> bool:
        return "llamacpp:requests_processing 0" not in engine._server.handle_metrics()

    call = Call("r", MODEL_NAME, None, payload)
    started = time.perf_counter()
    await engine.infer(call)
    whole = time.perf_counter() - started
    started = time.perf_counter()
    for _ in range(RUNS):
        run = asyncio.ensure_future(engine.infer(call))
        await until(busy)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await until(lambda: not busy())
    assert time.perf_counter() - started < RUNS * whole / 2


async def test_the_time_to_the_first_token_is_told(engine: Llama) -> None:
    payload = {"prompt": "The", "max_tokens": 100, "ignore_eos": True}
    started = time.perf_counter()
    answer = await engine.infer(Call("r", MODEL_NAME, None, payload))
    whole_ms = (time.perf_counter() - started) * 1000
    assert answer.first_token_ms is not None
    assert 0 < answer.first_token_ms < whole_ms / 2
