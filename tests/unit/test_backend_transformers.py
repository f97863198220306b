"""Backend `openai` keeps its contract with `transformers serve`, where that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.tiny_model import MODEL_NAME
from executors.backends import http
from executors.backends.base import Backend
from runtime.ports import free_port
from tests.transformers_server import PYTHON, transformers_server
from tests.unit.backend_contract import TENSORS, BackendContract, call

pytestmark = [
    pytest.mark.skipif(not PYTHON.exists(), reason="not installed: make transformers-serve"),
    pytest.mark.timeout(600),
]

PROMPT = {"prompt": "The with statement", "max_tokens": 8, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "What is a list?"}], "max_tokens": 8}
SAID = '.\n\nThe "with" statement'
"""What llama.cpp says to that prompt too."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with transformers_server(tmp_path_factory.mktemp("transformers")) as at:
        yield at


class TestTransformersServe(BackendContract):
    kind = "openai"
    model = MODEL_NAME
    answered = (PROMPT, CHAT)
    malformed = ({"prompt": []},)  # it answers 500 to most others
    foreign = (TENSORS,)

    @pytest.fixture
    def options(self, url: str) -> dict[str, Any]:
        return {"url": url}

    @pytest.fixture
    def lacking(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
        monkeypatch.setattr(http, "READY_WITHIN_S", 0.0)
        return {"url": f"http://127.0.0.1:{free_port()}/v1"}

    async def test_another_engine_says_the_same_words(self, backend: Backend) -> None:
        completion = await backend.infer(call(PROMPT, MODEL_NAME))
        assert completion.output["choices"][0]["text"] == SAID
        assert completion.first_token_ms is not None
