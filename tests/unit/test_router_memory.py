"""What a partition of a router remembers, and what its next owner reads back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import orjson
import pytest
from aiokafka.structs import TopicPartition
from typing_extensions import Self

from runtime.kafka.offsets import Committed
from schemas.decisions import DecisionRow, DecisionsRecord, ViewInputs, encode_decisions
from schemas.features import Features
from schemas.metadata import RouterCounts, encode_router
from schemas.request import Priority
from streams.router import rebuild
from streams.router.bindings import BINDINGS_MAX, STATED_BYTES_MAX, Bindings
from streams.router.rebuild import find_offset, read_memory
from streams.router.window import WINDOW_MS, WINDOW_REQUESTS, DuplicateWindow

NOW = 1_790_000_000_000
DECISIONS = TopicPartition("decisions", 0)
COUNTS = RouterCounts({"gpu": (1,)}, consumed=1)


def identity(number: int) -> tuple[str, int, int]:
    return f"r{number}", 1, 0


def test_a_request_is_known_for_ten_minutes() -> None:
    window = DuplicateWindow()
    window.claim(identity(1), 7, NOW)
    assert window.claim(identity(1), 0, NOW + WINDOW_MS) == 7
    assert window.claim(identity(1), 0, NOW + WINDOW_MS + 1) is None


def test_attempt_and_redrive_make_it_another_request() -> None:
    window = DuplicateWindow()
    window.claim(("r1", 1, 0), 7, NOW)
    assert window.claim(("r1", 2, 0), 0, NOW) is None
    assert window.claim(("r1", 1, 1), 0, NOW) is None


def test_the_last_twenty_thousand_are_known() -> None:
    window = DuplicateWindow()
    for number in range(WINDOW_REQUESTS + 1):
        window.claim(identity(number), number, NOW)
    window.trim(NOW)
    assert len(window) == WINDOW_REQUESTS
    assert window.claim(identity(0), 0, NOW) is None
    assert window.claim(identity(1), 0, NOW) == 1


def test_what_was_not_committed_is_forgotten_and_nothing_else() -> None:
    window = DuplicateWindow()
    for number in range(3):
        window.claim(identity(number), number, NOW)
    window.forget_last(2)
    assert [window.claim(identity(number), 0, NOW) for number in range(3)] == [0, None, None]


def test_a_request_from_before_the_window_begins_anew() -> None:
    window = DuplicateWindow()
    window.claim(identity(1), 7, NOW - WINDOW_MS - 1)
    window.claim(identity(1), 8, NOW)
    window.trim(NOW)
    assert (len(window), window.claim(identity(1), 0, NOW)) == (1, 8)


def test_the_conversation_longest_unused_is_let_go_first() -> None:
    bindings = Bindings()
    for number in range(BINDINGS_MAX):
        bindings.bind(f"c{number}", ("gpu", "gpu-1"), settles=True)
    bindings.bind("c0", ("gpu", "gpu-2"), settles=True)
    bindings.bind("new", ("gpu", "gpu-1"), settles=True)
    bindings.trim()
    assert len(bindings.by_conversation) == BINDINGS_MAX
    assert bindings.by_conversation["c0"] == ("gpu", "gpu-2")
    assert "c1" not in bindings.by_conversation


def test_a_binding_that_was_not_committed_gives_way_to_the_one_before() -> None:
    bindings = Bindings()
    bindings.bind("old", ("gpu", "gpu-1"), settles=True)
    before = bindings.bind("old", ("cpu", "cpu-1"), settles=True)
    bindings.take_back("old", before)
    bindings.take_back("new", bindings.bind("new", ("cpu", "cpu-1"), settles=True))
    assert dict(bindings.by_conversation) == {"old": ("gpu", "gpu-1")}


@pytest.mark.parametrize("letter", ["0", "\N{PARTY POPPER}"])
def test_no_record_states_more_bindings_than_it_has_room_for(letter: str) -> None:
    bindings = Bindings()
    for number in range(2_000):
        bindings.bind(f"{number}".rjust(256, letter), ("gpu", "n" * 128), settles=True)
    stated = bindings.state(10**6, NOW)
    assert sum(len(text.encode()) for each in stated for text in each) >= STATED_BYTES_MAX
    assert len(orjson.dumps(stated)) < STATED_BYTES_MAX * 1.1


def test_what_was_not_committed_is_stated_again() -> None:
    bindings = Bindings()
    for name in ("a", "b"):
        bindings.bind(name, ("gpu", "gpu-1"), settles=True)
    assert bindings.state(1, NOW) == [("a", "gpu", "gpu-1")]
    bindings.unstated()
    assert bindings.state(1, NOW) == [("a", "gpu", "gpu-1")]
    assert bindings.state(1, NOW) == [("b", "gpu", "gpu-1")]


class Stored(NamedTuple):
    """A record of `decisions`."""

    offset: int
    value: bytes


class Topic:
    """A partition of `decisions` on no broker; each transaction takes two offsets."""

    def __init__(self, records: Iterable[DecisionsRecord]) -> None:
        self.stored = [Stored(2 * n, encode_decisions(each)) for n, each in enumerate(records)]
        self.read = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing."""

    async def begin(self, _: object) -> dict[TopicPartition, int]:
        return {DECISIONS: 0}

    async def end(self, _: object) -> dict[TopicPartition, int]:
        return {DECISIONS: 2 * len(self.stored)}

    async def scan(self, _: object, __: object, start: int, end: int) -> AsyncIterator[Stored]:
        for record in self.stored:
            if start <= record.offset < end:
                self.read += 1
                yield record


def topic(monkeypatch: pytest.MonkeyPatch, records: Iterable[DecisionsRecord]) -> Topic:
    made = Topic(records)
    monkeypatch.setattr(rebuild, "OffsetReader", lambda _: made)
    monkeypatch.setattr(rebuild, "scan", made.scan)
    return made


def row(number: int, outcome: str = "gpu-preferred", **fields: Any) -> DecisionRow:
    return DecisionRow(0, number, f"r{number}", number, 1, 0, outcome, **fields)


def record(
    rows: Iterable[DecisionRow], *, at_ms: int = NOW, source: int = 0, following: int = 1
) -> DecisionsRecord:
    touched = (source == 0, source == 1)
    return DecisionsRecord(
        router="router",
        sequence=1,
        partition=0,
        first=(0, 0),
        next=(following if touched[0] else -1, following if touched[1] else -1),
        counts=(COUNTS if touched[0] else None, COUNTS if touched[1] else None),
        policy="overflow",
        mode="normal",
        threshold=10,
        now_ms=at_ms,
        view=ViewInputs(None, 0.0),
        rows=tuple(rows),
    )


def in_conversation(conversation: str) -> Features:
    return Features("m", Priority.NORMAL, None, False, None, NOW, conversation=conversation)


async def test_the_next_owner_knows_what_was_decided_and_where_conversations_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bound = row(1, pool="gpu", node="gpu-1", partition=0, features=in_conversation("c"))
    again = row(2, "sticky", pool="gpu", node="gpu-2", partition=1, features=in_conversation("c"))
    rest = [row(3, "dead:conflict"), row(4, "duplicate")]
    topic(monkeypatch, [record([bound]), record([again]), record(rest)])
    window, bindings = await read_memory({}, DECISIONS, NOW)
    assert [window.claim(identity(n), 0, NOW) for n in (1, 2, 3, 4)] == [1, 2, None, None]
    assert dict(bindings.by_conversation) == {"c": ("gpu", "gpu-2")}


async def test_a_take_over_reads_back_no_further_than_the_window_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = [record(row(100 * n + i) for i in range(100)) for n in range(1000)]
    stored = topic(monkeypatch, busy)
    window, _ = await read_memory({}, DECISIONS, NOW)
    assert len(window) == WINDOW_REQUESTS
    assert window.claim(identity(99_999), 0, NOW) == 99_999
    assert stored.read < 500  # 200 of the 1,000 records hold the window


async def test_a_take_over_does_not_read_what_is_out_of_the_window_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last, before = NOW - WINDOW_MS - 1, NOW - 3 * WINDOW_MS
    times = [before] * 999 + [last]
    stored = topic(monkeypatch, [record([row(n)], at_ms=ms) for n, ms in enumerate(times)])
    window, _ = await read_memory({}, DECISIONS, NOW)
    assert len(window) == 0
    assert stored.read < 200


async def test_a_lost_offset_is_where_the_last_decision_about_its_source_left_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    retried = record([], source=1, following=9)
    later = [record([row(n)], following=n) for n in range(1, 500)]
    topic(monkeypatch, [retried, *later])
    assert await find_offset({}, DECISIONS, 0) == Committed(499, encode_router(COUNTS))
    assert await find_offset({}, DECISIONS, 1) == Committed(9, encode_router(COUNTS))


async def test_without_a_decision_about_a_source_nothing_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic(monkeypatch, [record([row(n)], following=n) for n in range(1, 5)])
    assert await find_offset({}, DECISIONS, 1) is None


async def test_a_take_over_keeps_no_snapshots_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    told = record([row(1)])._replace(view=ViewInputs((1, 1), 0.0, body=b"{}"))
    topic(monkeypatch, [told])
    (read,) = await rebuild.read_recent({}, DECISIONS)
    assert (read.view.snapshot, read.view.body) == ((1, 1), None)
