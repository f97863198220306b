"""The committed tiny-docs model is small, loads in llama.cpp, and answers with words."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import pytest
import xllamacpp

from deploy.local.tiny_model import CONTEXT, MODEL_NAME, MODEL_PATH, PARAMETERS

SLOTS = 2


@pytest.fixture(scope="module")
def engine() -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(MODEL_PATH)
    params.model_alias = {MODEL_NAME}
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib = 0
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.verbosity = 0
    return xllamacpp.Server(params)


def completion(engine: Any, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = engine.handle_completions({"temperature": 0, **fields})
    assert "error" not in answer, answer
    return answer


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]{3,}", text)


def test_weights_are_at_most_three_megabytes() -> None:
    assert 1_000_000 < MODEL_PATH.stat().st_size <= 3_000_000


def test_stated_size_and_context_are_those_of_the_file(engine: Any) -> None:
    with urllib.request.urlopen(f"{engine.listening_address}/v1/models", timeout=10) as answer:  # noqa: S310 - our own loopback server
        (model,) = json.load(answer)["data"]
    assert model["id"] == MODEL_NAME
    assert model["meta"]["n_params"] == PARAMETERS
    assert model["meta"]["n_ctx_train"] == CONTEXT


def test_greedy_completion_is_deterministic(engine: Any) -> None:
    first, second = (
        completion(engine, prompt="The with statement", max_tokens=48)["choices"] for _ in range(2)
    )
    assert first == second


def test_completion_writes_different_words(engine: Any) -> None:
    answer = completion(engine, prompt="The with statement", max_tokens=48)
    assert answer["usage"]["completion_tokens"] == 48
    assert len(set(words(answer["choices"][0]["text"]))) >= 8


def test_prompt_steers_the_completion(engine: Any) -> None:
    texts = {
        completion(engine, prompt=prompt, max_tokens=16)["choices"][0]["text"]
        for prompt in ("The with statement", "def f(x):", "A class is")
    }
    assert len(texts) == 3


def test_chat_answers_with_words(engine: Any) -> None:
    answer = engine.handle_chat_completions(
        {
            "messages": [{"role": "user", "content": "What is a decorator?"}],
            "max_tokens": 48,
            "temperature": 0,
        }
    )
    assert len(words(answer["choices"][0]["message"]["content"])) >= 8


def test_embedding_places_alike_texts_nearer(engine: Any) -> None:
    answer = engine.handle_embeddings(
        {"input": ["The with statement", "The with clause", "import a module"]}
    )
    statement, clause, other = (item["embedding"] for item in answer["data"])
    assert dot(statement, clause) > dot(statement, other)


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
