"""Backend `onnx`: the contract with Magika's model, and devices that are believed by answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from executors.backends import trial
from executors.backends.base import Backend
from executors.backends.registry import make_backend
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory
from tests import magika
from tests.unit.backend_contract import (
    BackendContract,
    asked_what_was_read_at_start,
    call,
    node_of,
    refusal,
)
from tests.waiting import in_time

TOLD: dict[str, Any] = {
    "model_name": magika.NAME, "model_path": str(magika.PATH), "golden": str(magika.GOLDEN),
}  # fmt: skip


def tensor(**fields: object) -> dict[str, Any]:
    return {"inputs": [{**magika.payload()["inputs"][0], **fields}]}


class TestOnnx(BackendContract):
    kind = "onnx"
    model = magika.NAME
    answered = (magika.payload(),)
    malformed = (
        {"inputs": "bytes"},
        {"inputs": []},
        {"inputs": [{"name": "other"}]},
        tensor(datatype="INT64"),
        tensor(shape=[1, 100]),
        tensor(shape=[2048]),
        tensor(shape=[-1, 2048]),
        tensor(shape="1x2048"),
        tensor(data=[1] * 2047),
        tensor(data=["1"] * 2048),
        tensor(data=[1.5] * 2048),
        tensor(data=[2**40] * 2048),
        tensor(data=[[1], [2, 3]]),
        tensor(data=None),
    )
    foreign = ({"prompt": "x"}, {"messages": []}, {"input": "x"})

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return TOLD

    @pytest.fixture
    def lacking(self, tmp_path: Path) -> dict[str, Any] | None:
        return {**TOLD, "model_path": str(tmp_path / "none.onnx")}

    async def test_golden_inputs_are_read_once(
        self, options: dict[str, Any], tmp_path: Path
    ) -> None:
        await asked_what_was_read_at_start("onnx", options, tmp_path)


@pytest.fixture
async def live() -> AsyncIterator[Backend]:
    made = make_backend(node_of("onnx", TOLD))
    await made.start()
    yield made
    await made.close()


async def refused(**options: Any) -> str:
    """Return why a node with these options does not come up."""
    made = make_backend(node_of("onnx", {**TOLD, **options}))
    with pytest.raises(BackendUnavailable) as caught:
        await made.start()
    await made.close()
    return str(caught.value)


async def test_a_real_model_says_what_kind_of_file_it_is(live: Backend) -> None:
    output = (await live.infer(call(magika.payload(), magika.NAME))).output
    assert magika.label(output) == "python"
    shell = b'#!/bin/sh\nset -e\nfor f in *.txt; do\n  echo "$f"\ndone\n' * 4
    output = (await live.infer(call(magika.payload(shell), magika.NAME))).output
    assert magika.label(output) == "shell"


async def test_what_the_golden_input_proved_is_in_the_capability(live: Backend) -> None:
    (proven,) = (await live.self_test()).proven
    assert (proven.shapes, proven.precision) == ({"bytes": (-1, 2048)}, "fp32")
    assert proven.golden_error is not None
    assert proven.golden_error < 0.01


async def test_a_model_that_was_corrupted_is_refused_by_its_golden_error(tmp_path: Path) -> None:
    corrupted = magika.corrupted(tmp_path / "corrupted.onnx")
    why = await refused(model_path=str(corrupted))
    assert "golden error of 0." in why
    assert "more than 0.01" in why


async def test_a_device_that_is_not_there_is_refused_and_nothing_falls_back_to_the_cpu() -> None:
    assert "no CUDAExecutionProvider" in await refused(provider="CUDAExecutionProvider")
    # This provider is there and takes no node of the graph: ONNX Runtime would take the CPU.
    assert "cannot run on AzureExecutionProvider" in await refused(
        provider="AzureExecutionProvider"
    )


async def test_shapes_can_be_fixed_and_then_no_other_is_taken() -> None:
    made = make_backend(node_of("onnx", {**TOLD, "dimensions": {"unk__214": 1}}))
    await made.start()
    (proven,) = (await made.self_test()).proven
    assert proven.shapes == {"bytes": (1, 2048)}
    two = tensor(shape=[2, 2048], data=[0] * 4096)
    assert await refusal(made, call(two, magika.NAME)) is ErrorCategory.BAD_REQUEST
    await made.close()


async def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(magika.PATH.read_bytes()[:100_000])
    assert "cannot run on CPUExecutionProvider" in await refused(model_path=str(cut))


@pytest.mark.parametrize("content", ["", "[]", "{}", '[{"payload": {}}]'])
def test_a_file_without_golden_inputs_is_said(tmp_path: Path, content: str) -> None:
    file = tmp_path / "golden.json"
    file.write_text(content)
    with pytest.raises(UsageError, match="no golden inputs"):
        make_backend(node_of("onnx", {**TOLD, "golden": str(file)}))


DEVICES = "tests.unit.devices"


async def test_a_device_that_kills_or_hangs_its_process_is_refused_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(BackendUnavailable, match=r"died \(SIGABRT\): the driver is lost"):
        await trial.tried(f"{DEVICES}:dies", {}, "device x")
    monkeypatch.setattr(trial, "TRIAL_WITHIN_S", 0.2)
    with pytest.raises(BackendUnavailable, match="hung"):
        await asyncio.wait_for(trial.tried(f"{DEVICES}:hangs", {}, "device x"), in_time(20))


async def test_what_an_engine_prints_is_not_taken_for_its_answer() -> None:
    assert await trial.tried(f"{DEVICES}:prints", {"a": 1}, "device x") == {"told": {"a": 1}}


async def test_an_engine_that_is_not_installed_is_said() -> None:
    with pytest.raises(BackendUnavailable, match="no_such_engine is not installed"):
        await trial.tried("no_such_engine:prove", {}, "device x")


def test_the_golden_file_is_the_answer_to_the_question() -> None:
    (golden,) = orjson.loads(magika.GOLDEN.read_bytes())
    assert golden["payload"] == magika.payload()
    assert magika.label(golden["output"]) == "python"
