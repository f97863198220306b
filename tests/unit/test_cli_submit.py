"""What `submit` sends and how terminal records are printed."""

from __future__ import annotations

import io
import json
import re

import click
import pytest

from deploy.cli.printing import line_of, text_of
from deploy.cli.submitting import lines_of, one_of_flags
from deploy.client.terminal import Terminal
from schemas.headers import Origin
from schemas.outcomes import Reason, Status
from schemas.parsing import parse_request
from schemas.pools import ComputeType
from schemas.result import DecisionSummary, Result, ServedBy, Timings

ORIGIN = Origin("overspill.requests", 0, 7)
NO_FLAGS = {"request_id": None, "prompt": None, "payload": None, "max_tokens": 16}


def test_flags_make_a_valid_request() -> None:
    (line,) = one_of_flags(
        **(NO_FLAGS | {"prompt": "The with statement"}),
        model_name="tiny-docs",
        priority="batch",
        latency_slo_ms=500.0,
        has_lora=False,
        tenant=None,
    )
    request = parse_request(line.value)
    assert request.payload == {"prompt": "The with statement", "max_tokens": 16}
    assert request.latency_slo_ms == 500
    assert "tenant" not in json.loads(line.value)


def test_each_request_of_flags_gets_an_id_of_its_own() -> None:
    ids = {
        json.loads(line.value)["id"]
        for _ in range(2)
        for line in one_of_flags(**(NO_FLAGS | {"prompt": "p"}), model_name="m")
    }
    assert len(ids) == 2


def test_a_payload_may_be_given_whole() -> None:
    payload = '{"messages": [{"role": "user", "content": "hi"}]}'
    (line,) = one_of_flags(**(NO_FLAGS | {"payload": payload}), model_name="m")
    assert json.loads(line.value)["payload"] == json.loads(payload)
    with pytest.raises(click.UsageError, match="either --prompt or --payload"):
        list(one_of_flags(**(NO_FLAGS | {"payload": payload, "prompt": "p"}), model_name="m"))


def test_empty_lines_of_a_file_are_no_requests_and_lines_keep_their_numbers() -> None:
    lines = list(lines_of(io.BytesIO(b'{"id": "a"}\n\n  \n{"id": "b"}\n')))
    assert [(line.place, line.value) for line in lines] == [
        ("line 1", b'{"id": "a"}'),
        ("line 4", b'{"id": "b"}'),
    ]


def a_result(output: dict[str, object], *, emulated: bool) -> Terminal:
    result = Result(
        id="r1",
        status=Status.OK,
        output=output,
        served_by=ServedBy(
            node="n", pool="gpu", compute_type=ComputeType.GPU, backend="llama", engine="e",
            device="d", model="m", emulated=emulated,
        ),
        timings_ms=Timings(to_router=1, total=123.4),
        decision=DecisionSummary(reason=Reason.OVERFLOW, threshold=10, policy="overflow"),
    )  # fmt: skip
    return Terminal(ORIGIN, "r1", result, "", "", 0, ORIGIN)


def test_a_result_is_one_line_that_says_where_why_and_what() -> None:
    line = line_of(a_result({"choices": [{"text": " two\nwords "}]}, emulated=True))
    assert line == "r1  ok  gpu (emulated)  overflow  123 ms  two words"


def test_a_dead_letter_is_one_line_with_its_category() -> None:
    letter = Terminal(ORIGIN, None, None, "not-json", "the value is not JSON", 0, ORIGIN)
    assert line_of(letter) == "-  dead-letter  not-json: the value is not JSON"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"choices": [{"message": {"content": "chat"}}]}, "chat"),
        ({"data": [1, 2]}, '{"data":[1,2]}'),
        ({"choices": [{"text": "bell \x07 and \x1b[2J"}]}, "bell ? and ?[2J"),
        ({"choices": []}, '{"choices":[]}'),
    ],
)
def test_model_text_cannot_break_the_terminal(output: dict[str, object], text: str) -> None:
    assert text_of(output) == text


def test_long_text_is_cut() -> None:
    assert re.fullmatch(r"x{67}\.\.\.", text_of({"choices": [{"text": "x" * 500}]}))
