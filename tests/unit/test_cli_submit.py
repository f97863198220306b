"""What `submit` sends and how terminal records are printed."""

from __future__ import annotations

import asyncio
import io
import json
import re

import click
import pytest
from typing_extensions import Self

from deploy.cli import submitting
from deploy.cli.printing import line_of, text_of
from deploy.cli.submitting import Line, Submission, lines_of, one_of_flags
from deploy.client.terminal import Terminal
from runtime.settings import Settings
from schemas.headers import Origin
from schemas.outcomes import Reason, Status
from schemas.parsing import parse_request
from schemas.pools import ComputeType
from schemas.result import DecisionSummary, Result, ServedBy, Timings
from tests.waiting import until

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


class Post:
    """A sender whose records arrive when the door is opened, under offsets from 0.

    Attributes:
        sent: so far, of the one that was made last.
    """

    door = asyncio.Event()
    sent = 0

    def __init__(self, *_: object) -> None:
        Post.door, Post.sent = asyncio.Event(), 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""

    async def send(self, *_: object) -> Origin:
        Post.sent += 1
        offset = Post.sent - 1
        await Post.door.wait()
        return Origin("overspill.requests", 0, offset)


def requests(count: int) -> list[Line]:
    body = b'{"id": "r%d", "model_name": "m", "payload": {}}'
    return [Line(f"line {n}", body % n) for n in range(count)]


async def test_so_many_records_are_on_their_way_at_once_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submitting, "AT_ONCE", 7)
    monkeypatch.setattr(submitting, "Sender", Post)
    taken: list[int] = []
    lines = (taken.append(number) or line for number, line in enumerate(requests(50)))
    sending = asyncio.ensure_future(Submission(Settings(), as_json=True)._send(lines))
    await until(lambda: Post.sent == 7)
    await asyncio.sleep(0.05)
    assert (Post.sent, len(taken)) == (7, 7)
    Post.door.set()
    assert await sending == 50


async def test_a_result_may_come_before_its_requests_acknowledgement_and_others_are_let_go(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(submitting, "EARLY_MAX", 3)
    monkeypatch.setattr(submitting, "Sender", Post)
    submission = Submission(Settings(), as_json=False)
    for number in range(100, 0, -1):
        submission._take(
            a_result({}, emulated=False)._replace(origin=ORIGIN._replace(offset=number))
        )
    assert len(submission._early) == 3
    sending = asyncio.ensure_future(submission._send(requests(3)))
    await until(lambda: Post.sent == 3)
    Post.door.set()
    await sending
    assert list(submission._waiting.values()) == ["r0"]
    assert len(capsys.readouterr().out.splitlines()) == 2
