"""A ledger says what to run, what to skip, what to commit and when to read no further."""

from __future__ import annotations

import pytest

from executors.ledger import Ledger
from schemas.metadata import FRONTIER_SPAN_MAX, IN_FLIGHT_MAX, FinishedCounts


def test_a_restart_runs_the_unfinished_and_skips_the_others() -> None:
    ledger = Ledger(FinishedCounts(finished=7, frontier=10, unfinished=(4, 8)))
    assert ledger.next_wanted == 4
    assert [offset for offset in range(4, 12) if ledger.enter(offset)] == [4, 8, 10, 11]


def test_what_is_not_read_again_yet_stays_unfinished() -> None:
    ledger = Ledger(FinishedCounts(finished=7, frontier=10, unfinished=(4, 8)))
    ledger.enter(4)
    assert ledger.after([4]) == FinishedCounts(8, 10, (8,))


def test_one_long_request_blocks_no_other() -> None:
    ledger = Ledger(FinishedCounts(0, 0))
    for offset in range(100):
        ledger.enter(offset)
    ledger.finish(range(1, 100))
    assert ledger.counts == FinishedCounts(finished=99, frontier=100, unfinished=(0,))


def test_looking_ahead_changes_nothing() -> None:
    ledger = Ledger(FinishedCounts(0, 0))
    ledger.enter(0)
    ledger.after([0])
    assert ledger.counts == FinishedCounts(0, 1, (0,))


def test_an_offset_is_entered_once_and_finished_once() -> None:
    ledger = Ledger(FinishedCounts(0, 0))
    ledger.enter(5)
    with pytest.raises(ValueError, match="entered before"):
        ledger.enter(5)
    ledger.finish([5])
    with pytest.raises(KeyError):
        ledger.finish([5])


def test_there_is_room_for_a_thousand_unfinished() -> None:
    ledger = Ledger(FinishedCounts(0, 0))
    for offset in range(IN_FLIGHT_MAX):
        assert ledger.has_room_for(offset)
        ledger.enter(offset)
    assert not ledger.has_room_for(IN_FLIGHT_MAX)
    ledger.finish([IN_FLIGHT_MAX - 1])
    assert ledger.has_room_for(IN_FLIGHT_MAX)


def test_a_restart_with_a_full_ledger_takes_what_is_unfinished_and_nothing_more() -> None:
    unfinished = tuple(range(10, 10 + IN_FLIGHT_MAX))
    ledger = Ledger(FinishedCounts(10, 2 * IN_FLIGHT_MAX, unfinished))
    for offset in unfinished:
        assert ledger.has_room_for(offset)
        assert ledger.enter(offset)
    assert not ledger.has_room_for(2 * IN_FLIGHT_MAX)


def test_the_frontier_does_not_run_away_from_a_long_request() -> None:
    ledger = Ledger(FinishedCounts(0, 0))
    ledger.enter(0)
    for offset in range(1, FRONTIER_SPAN_MAX):
        assert ledger.has_room_for(offset)
        ledger.enter(offset)
        ledger.finish([offset])
    assert not ledger.has_room_for(FRONTIER_SPAN_MAX)
    ledger.finish([0])
    assert ledger.has_room_for(FRONTIER_SPAN_MAX)
