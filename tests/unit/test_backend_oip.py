"""Backend `oip`: the contract on a small server and on MLServer, both with a real model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from executors.backends import http
from executors.backends.base import Backend, BackendError
from executors.backends.registry import make_backend
from runtime.ports import free_port
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory
from tests import magika
from tests.oip_server import MLSERVER, SPOILT, TRACEBACK, mlserver, oip_server
from tests.unit.backend_contract import (
    BackendContract,
    asked_what_was_read_at_start,
    call,
    node_of,
    refusal,
)

GOLDEN = {magika.NAME: str(magika.GOLDEN)}


def tensor(**fields: object) -> dict[str, Any]:
    return {"inputs": [{**magika.payload()["inputs"][0], **fields}]}


class OipContract(BackendContract):
    kind = "oip"
    model = magika.NAME
    answered = (magika.payload(), {**magika.payload(), "outputs": [{"name": "target_label"}]})
    malformed = (
        {"inputs": "bytes"},
        {"inputs": []},
        {"inputs": [{"name": "other"}]},
        tensor(datatype="INT64"),
        tensor(shape=[1, 100]),
        tensor(data=[1] * 2047),
        tensor(data=["1"] * 2048),
        {**magika.payload(), "outputs": [5]},
    )
    foreign = ({"prompt": "x"}, {"messages": []}, {"input": "x"})

    @pytest.fixture
    def lacking(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any] | None:
        monkeypatch.setattr(http, "READY_WITHIN_S", 0.0)
        return {"url": f"http://127.0.0.1:{free_port()}", "models": [magika.NAME]}

    async def test_a_real_model_says_what_kind_of_file_it_is(self, backend: Backend) -> None:
        output = (await backend.infer(call(magika.payload(), magika.NAME))).output
        assert magika.label(output) == "python"

    async def test_golden_inputs_are_read_once(
        self, options: dict[str, Any], tmp_path: Path
    ) -> None:
        await asked_what_was_read_at_start("oip", options, tmp_path)

    async def test_golden_inputs_prove_the_server(self, backend: Backend) -> None:
        (proven,) = (await backend.self_test()).proven
        assert proven.shapes == {"bytes": (-1, 2048)}
        assert proven.golden_error is not None
        assert proven.golden_error < 0.01


class TestOip(OipContract):
    @pytest.fixture
    async def options(self) -> AsyncIterator[dict[str, Any]]:
        async with oip_server() as url:
            yield {"url": url, "models": [magika.NAME], "golden": GOLDEN}


@pytest.fixture(scope="module")
def at() -> Iterator[str]:
    with mlserver() as url:
        yield url


@pytest.mark.skipif(not MLSERVER.exists(), reason="MLServer is not installed: make mlserver")
class TestMLServer(OipContract):
    @pytest.fixture
    def options(self, at: str) -> dict[str, Any]:
        return {"url": at, "models": [magika.NAME], "golden": GOLDEN}

    async def test_it_says_who_it_is(self, backend: Backend) -> None:
        assert backend.info.engine.startswith("mlserver 1.")


@pytest.mark.parametrize("model", [*SPOILT, TRACEBACK])
async def test_an_answer_of_another_form_is_the_servers_fault(model: str) -> None:
    async with oip_server() as url:
        made = make_backend(node_of("oip", {"url": url, "models": [model]}))
        await made.start()
        with pytest.raises(BackendError) as caught:
            await made.infer(call(magika.payload(), model))
        assert caught.value.category is ErrorCategory.BACKEND_ERROR
        assert "secret" not in caught.value.message
        await made.close()


async def test_a_server_that_answers_its_golden_input_wrongly_is_refused() -> None:
    async with oip_server() as url:
        told = {"url": url, "models": ["no-data"], "golden": {"no-data": str(magika.GOLDEN)}}
        made = make_backend(node_of("oip", told))
        await made.start()
        with pytest.raises(BackendUnavailable, match=r"no-data .* has not the protocol's form"):
            await made.self_test()
        await made.close()


async def test_a_model_that_the_server_has_not_is_said_at_start() -> None:
    async with oip_server() as url:
        made = make_backend(node_of("oip", {"url": url, "models": ["gone"]}))
        with pytest.raises(BackendUnavailable, match="Model gone not found"):
            await made.start()
        await made.close()


async def test_what_a_model_takes_is_checked_before_it_is_asked() -> None:
    async with oip_server() as url:
        made = make_backend(node_of("oip", {"url": url, "models": [TRACEBACK]}))
        await made.start()
        wrong = call(tensor(shape=[1, 100]), TRACEBACK)
        assert await refusal(made, wrong) is ErrorCategory.BAD_REQUEST
        await made.close()


@pytest.mark.parametrize("told", [{}, {"url": "http://h"}, {"models": ["m"]}])
def test_url_and_models_are_needed(told: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="needs --url"):
        make_backend(node_of("oip", told))
