"""Which dead letters are sent in again, and what a redrive writes for each."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import click
import pytest

from deploy.cli.redrive import Moment
from deploy.client.terminal import Terminal
from deploy.redrive import (
    GENERATIONS_MAX,
    NO_BYTES,
    NO_PLACE,
    OTHER_ORIGIN,
    TOO_OFTEN,
    Chosen,
    Redrive,
    Redriven,
    redriven,
)
from schemas import headers as h
from schemas.headers import Origin, decode_passage, split_headers
from schemas.topics import TopicNames

NAMES = TopicNames("t.")
ORIGIN = Origin("t.requests", 1, 7)
NOW = 1_790_000_000_000
EVERY = Chosen()


@dataclass
class Letter:
    """A record of `dead-letter` as it is read."""

    offset: int = 3
    value: bytes | None = b"{"
    origin: Origin = ORIGIN
    generation: int = 0
    topic: str = "t.dead-letter"
    partition: int = 1
    key: bytes = b"k"
    timestamp: int = NOW
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.headers = [
            ("trace", b"\x00"),
            (h.ORIGIN, self.origin.encode()),
            (h.ERROR_CATEGORY, b"not-json"),
            (h.ERROR_MESSAGE, b"the value is not JSON"),
            *([(h.REDRIVE, b"%d" % self.generation)] if self.generation else []),
        ]


def verdict(letter: Letter, chosen: Chosen = EVERY, *, marked: bool = False) -> object:
    """Return a letter's category if it is to be sent, else why not, else None."""
    done = Redriven()
    superseded = {Origin(letter.topic, letter.partition, letter.offset)} if marked else set()
    work = Redrive({}, NAMES)
    sent = work._to_send(letter, superseded, chosen, {NAMES.retry: 4}, done)  # type: ignore[arg-type]
    return sent or next(iter(done.kept), None) or ("before" if done.before else None)


def terminal(category: str = "internal", at_ms: int = NOW) -> Terminal:
    return Terminal(ORIGIN, "r", None, category, "", at_ms, ORIGIN)


def test_without_a_choice_all_are_taken() -> None:
    assert Chosen().takes(terminal())


def test_letters_are_chosen_by_category_and_by_the_time_they_died() -> None:
    chosen = Chosen(frozenset({"internal"}), since_ms=NOW, until_ms=NOW + 10)
    assert not chosen.takes(terminal("not-json"))
    times = [NOW - 1, NOW, NOW + 9, NOW + 10]
    assert [chosen.takes(terminal(at_ms=at)) for at in times] == [False, True, True, False]


def test_a_letter_is_sent_unless_it_is_superseded_or_not_chosen() -> None:
    assert verdict(Letter()) == "not-json"
    assert verdict(Letter(), marked=True) == "before"
    assert verdict(Letter(), Chosen(frozenset({"internal"}))) is None


@pytest.mark.parametrize(
    ("letter", "why"),
    [
        (Letter(value=None), NO_BYTES),
        (Letter(origin=Origin("t.gpu", 1, 7)), OTHER_ORIGIN),
        (Letter(origin=Origin("t.requests", 4, 7)), NO_PLACE),
        (Letter(generation=GENERATIONS_MAX), TOO_OFTEN),
    ],
)
def test_what_cannot_be_sent_is_kept_and_says_why(letter: Letter, why: str) -> None:
    assert verdict(letter) == why


def test_the_last_redrive_but_one_is_still_sent() -> None:
    assert verdict(Letter(generation=GENERATIONS_MAX - 1)) == "not-json"


def test_a_redrive_writes_the_request_anew_and_a_marker_for_its_letter() -> None:
    (again, marker) = redriven(Letter(generation=2), NAMES, NOW + 5)  # type: ignore[arg-type]
    topic, partition, value, headers = again
    assert (topic, partition, value) == ("t.retry", 1, b"{")
    theirs, ours = split_headers(headers)
    assert theirs == [("trace", b"\x00")]
    passage = decode_passage(ours)
    assert (passage.origin, passage.attempt, passage.redrive) == (ORIGIN, 1, 3)
    assert (passage.arrived_at_ms, passage.excluded) == (NOW + 5, ())
    topic, partition, value, headers = marker
    assert (topic, partition, value) == ("t.dead-letter", 1, None)
    assert dict(headers)[h.SUPERSEDES] == b"t.dead-letter/1/3"
    assert h.ERROR_CATEGORY not in dict(headers)


@pytest.mark.parametrize(
    "said", ["2026-09-21T14:13:20Z", "2026-09-21T14:13:20", "2026-09-21T16:13:20+02:00"]
)
def test_a_time_without_an_offset_is_utc_wherever_the_operator_is(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        read = Moment().convert(said, None, None)
    time.tzset()
    assert read == NOW


def test_a_time_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(click.BadParameter, match="2026-11-29T12:00:00Z"):
        Moment().convert("yesterday", None, None)
