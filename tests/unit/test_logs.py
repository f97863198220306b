"""A log record is one line, whatever text is in it."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from runtime.logs import MESSAGE_MAX, JsonLines, TextLines, about

FORGED = 'x\n12:00:00 I overspill: all is well\r\x1b[2J\u2028"}{"level": "INFO"}\x00\ud800é'


def record(message: str, *arguments: object, request_id: str | None = None) -> logging.LogRecord:
    made = logging.LogRecord("overspill", logging.WARNING, "f.py", 1, message, arguments, None)
    made.__dict__.update(about(request_id) if request_id is not None else {})
    return made


def failed(said: str) -> logging.LogRecord:
    made = record("the backend failed", request_id="r-1")
    try:
        int(said)
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.fixture(params=[JsonLines(), TextLines()], ids=["json", "text"])
def formatter(request: pytest.FixtureRequest) -> logging.Formatter:
    formatter: logging.Formatter = request.param
    return formatter


def test_text_of_others_makes_no_second_line_and_no_terminal_code(
    formatter: logging.Formatter,
) -> None:
    line = formatter.format(record("cannot read %s", FORGED, request_id=FORGED))
    assert len(line.splitlines()) == 1
    assert line.isascii()
    assert line.isprintable()


def test_a_long_text_is_cut_and_says_how_much_is_missing(formatter: logging.Formatter) -> None:
    line = formatter.format(record("%s", "x" * 1_000_000))
    assert len(line) < MESSAGE_MAX + 300
    assert "998000 more" in line


def test_json_says_which_request_it_is_about() -> None:
    line = json.loads(JsonLines().format(record("the backend failed", request_id="r-1")))
    assert (line["request_id"], line["level"], line["message"]) == (
        "r-1", "WARNING", "the backend failed",
    )  # fmt: skip
    assert line["at"].endswith("+00:00")
    assert "request_id" not in json.loads(JsonLines().format(record("ready")))


def test_people_are_told_it_too() -> None:
    assert (
        TextLines()
        .format(record("the backend failed", request_id="r-1"))
        .endswith("W overspill: the backend failed [r-1]")
    )


def test_an_exception_forges_no_line_of_the_log() -> None:
    assert len(JsonLines().format(failed(FORGED)).splitlines()) == 1
    first, *below = TextLines().format(failed(FORGED)).splitlines()
    assert first.endswith("the backend failed [r-1]")
    assert below
    assert all(line.startswith("    ") and line.isprintable() for line in below)
