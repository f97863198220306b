"""How far an answer is from a golden one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.backends.golden import WRONG, Golden, accept, error_of, read_golden
from schemas.errors import BackendUnavailable, UsageError


def tensors(*data: float | str, shape: tuple[int, ...] | None = None) -> dict[str, Any]:
    return {"outputs": [{"name": "y", "shape": list(shape or (len(data),)), "data": list(data)}]}


def error(payload: str, expected: dict[str, Any], got: dict[str, Any]) -> float:
    return error_of(Golden({payload: "x"}, expected), got)


def text(said: str) -> dict[str, Any]:
    return {"choices": [{"text": said}]}


def test_numbers_differ_by_a_share_of_the_largest() -> None:
    assert error("inputs", tensors(1.0, -4.0), tensors(1.0, -3.0)) == 0.25
    assert error("inputs", tensors(0.0), tensors(0.5)) == 0.5
    assert error("inputs", tensors("a", "b"), tensors("a", "c")) == 0.5


def test_text_differs_by_what_is_not_repeated_from_its_beginning() -> None:
    assert error("prompt", text("abcd"), text("abxd")) == 0.5
    assert error("prompt", text("abcd"), text("abcde")) == 0
    assert error("prompt", text(""), text("")) == 0
    assert error("prompt", text(""), text("a")) == WRONG
    chat = {"choices": [{"message": {"content": "abcd"}}]}
    assert error("messages", chat, chat) == 0


@pytest.mark.parametrize(
    "held", ["[]", "{}", "no JSON", '[{"payload": {}}]', '[{"payload": 5, "output": {}}]']
)
def test_a_file_without_golden_inputs_says_what_they_are(held: str, tmp_path: Path) -> None:
    file = tmp_path / "golden.json"
    file.write_text(held)
    with pytest.raises(UsageError, match="JSON list"):
        read_golden(file)


@pytest.mark.parametrize(
    "got",
    [{}, {"outputs": []}, tensors(1.0), tensors(1.0, 2.0, shape=(2, 1)), tensors(1.0, float("nan")),
     {"outputs": None}, tensors(1.0, "x")],
)  # fmt: skip
def test_an_answer_of_another_form_is_wrong(got: dict[str, Any]) -> None:
    assert error("inputs", tensors(1.0, 2.0), got) == WRONG


@given(st.lists(st.floats(-1e30, 1e30), min_size=1))
def test_the_same_numbers_have_no_error(numbers: list[float]) -> None:
    embedding = {"data": [{"embedding": numbers}]}
    assert error("input", embedding, embedding) == 0


def test_an_error_beyond_the_bound_refuses_the_device_and_says_both() -> None:
    assert accept("m", "npu", 0.01, 0.01) == 0.01
    with pytest.raises(
        BackendUnavailable, match=r"m on npu .* golden error of 0\.9, more than 0\.01"
    ):
        accept("m", "npu", 0.9, 0.01)
