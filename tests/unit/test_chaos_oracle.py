"""The oracle of the chaos runs: each verdict from a history made by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas.headers import Origin
from schemas.metadata import FinishedCounts, RouterCounts
from tests.chaos.books import entries
from tests.chaos.history import HistoryFile, read_history
from tests.chaos.oracle import End, Entry, History, Outcome, Sent, judge
from tests.chaos.traffic import ends_of


def at(offset: int) -> Origin:
    return Origin("requests", 0, offset)


NUMBERS = {at(n): n for n in range(3)}


def history(**changes: Any) -> History:
    """Return a history in which three requests ended well: result, dead letter, repeat."""
    well = History(
        sent=tuple(Sent(n, at(n)) for n in range(3)),
        requests=dict(NUMBERS),
        ends=(End(at(0), is_letter=False), End(at(1), is_letter=True)),
        repeats=(at(2),),
        seen=frozenset({at(0)}),
        books=(Entry("dead", 1, 1),),
        at_rest=True,
    )
    return well._replace(**changes)


WELL = history()


def test_each_request_with_one_end_passes() -> None:
    judged = judge(WELL)
    assert (judged.outcome, judged.requests) == (Outcome.PASS, 3)


def test_a_send_without_an_answer_may_be_there_and_may_not() -> None:
    for number, requests in ((3, WELL.requests), (0, WELL.requests)):
        sent = (*(s for s in WELL.sent if s.number != number), Sent(number, None))
        assert judge(history(sent=sent, requests=requests)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"ends": WELL.ends[1:], "seen": frozenset()}, "lost"),
        ({"repeats": ()}, "lost"),
        ({"requests": {at(0): 0, at(1): 1, at(2): 2, at(3): None}}, "lost"),
        ({"requests": {at(0): 0, at(1): 7, at(2): 2}}, "lost"),
        ({"ends": (*WELL.ends, WELL.ends[0])}, "doubled"),
        ({"ends": (*WELL.ends, End(at(2), is_letter=False))}, "doubled"),
        ({"ends": (*WELL.ends, End(at(0), is_letter=True))}, "in_both"),
        ({"ends": (*WELL.ends, End(at(9), is_letter=False))}, "phantom"),
        ({"repeats": (at(2), at(9))}, "phantom"),
        ({"seen": frozenset({at(0), at(2)})}, "vanished"),
        ({"may_end": {at(0): frozenset({"expired"})}}, "mistaken"),
        ({"may_end": {at(2): frozenset({"ok"})}}, "mistaken"),
        ({"books": (Entry("dead", 2, 1),)}, "miscounted"),
    ],
)
def test_anything_else_fails_and_says_what(changes: dict[str, Any], flaw: str) -> None:
    judged = judge(history(**changes))
    assert judged.outcome is Outcome.FAIL
    flaws = ("lost", "doubled", "in_both", "phantom", "vanished", "mistaken", "miscounted")
    assert [name for name in flaws if getattr(judged, name)] == [flaw]
    assert len(getattr(judged, flaw)) == 1


def test_what_has_no_end_while_there_is_work_left_is_not_known_to_be_lost() -> None:
    judged = judge(history(ends=WELL.ends[:1], at_rest=False))
    assert (judged.outcome, judged.lost, judged.unended) == (Outcome.UNKNOWN, (), (at(1),))


def test_work_left_excuses_nothing_that_is_doubled() -> None:
    assert judge(history(ends=WELL.ends * 2, at_rest=False)).outcome is Outcome.FAIL


def test_an_end_that_only_a_send_without_an_answer_explains_is_unknown() -> None:
    ends = (*WELL.ends, End(at(3), is_letter=False))
    judged = judge(history(ends=ends, sent=(*WELL.sent, Sent(3, None))))
    assert (judged.outcome, judged.unexplained) == (Outcome.UNKNOWN, (at(3),))
    two = (*ends, End(at(4), is_letter=False))
    judged = judge(history(ends=two, sent=(*WELL.sent, Sent(3, None))))
    assert (judged.outcome, judged.phantom) == (Outcome.FAIL, (at(3), at(4)))


def test_a_history_file_is_judged_as_the_run_was(tmp_path: Path) -> None:
    notes = HistoryFile(tmp_path / "h.jsonl", seed=1)
    for sent in (*WELL.sent, Sent(3, None)):
        notes.note("send", number=sent.number)
        if sent.origin is not None:
            notes.at("acknowledged", sent.origin, number=sent.number)
    notes.note("rest", at_rest=True)
    for origin, number in WELL.requests.items():
        notes.at("request", origin, number=number)
    for end in WELL.ends:
        notes.at("end", end.origin, is_letter=end.is_letter, how=end.how)
    for origin in WELL.repeats:
        notes.at("repeat", origin)
    for origin in WELL.seen:
        notes.at("seen", origin)
    for entry in WELL.books:
        notes.note("entry", **entry._asdict())
    notes.close()
    may_end = {origin: ends_of(1, number) for origin, number in NUMBERS.items()}
    expected = history(sent=(*WELL.sent, Sent(3, None)), may_end=may_end)
    assert read_history(notes.path) == expected


ROUTERS = {("requests", 0): RouterCounts({"gpu": (2, 0)}, consumed=4, dead=1, duplicate=1)}
NODES = {("gpu", 0): FinishedCounts(finished=2, frontier=5, expired=1)}
RECORDS = {("requests", 0): 4, ("gpu", 0): 2, ("gpu", 1): 0}
ENDINGS = Counter(dead=1, duplicate=1, expired=1, decided=4)


def test_books_that_agree_have_no_line_that_does_not() -> None:
    lines = list(entries(ROUTERS, NODES, RECORDS, ENDINGS))
    assert len(lines) > 10
    assert [line for line in lines if line.counted != line.found] == []


@pytest.mark.parametrize(
    ("routers", "nodes", "records", "endings", "name"),
    [
        ({"consumed": 5}, {}, {}, {}, "requests-0 consumed"),
        ({}, {}, {("requests", 0): 5}, {}, "requests-0 consumed"),
        ({}, {}, {("gpu", 0): 3}, {}, "gpu-0 routed"),
        ({}, {"finished": 1}, {}, {}, "gpu-0 finished"),
        ({}, {"unfinished": (3,)}, {}, {}, "gpu-0 unfinished"),
        ({}, {"expired": 0}, {}, {}, "expired"),
        ({}, {}, {}, {"dead": 2}, "dead"),
        ({}, {}, {}, {"decided": 3}, "decided"),
    ],
)
def test_a_line_that_does_not_agree_says_which_count_it_is(
    routers: dict[str, Any],
    nodes: dict[str, Any],
    records: dict[tuple[str, int], int],
    endings: dict[str, int],
    name: str,
) -> None:
    lines = entries(
        {place: counts._replace(**routers) for place, counts in ROUTERS.items()},
        {place: counts._replace(**nodes) for place, counts in NODES.items()},
        RECORDS | records,
        Counter(ENDINGS | endings),
    )
    assert name in [line.name for line in lines if line.counted != line.found]
