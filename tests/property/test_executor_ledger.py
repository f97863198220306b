"""The ledger is exact: no order of work, commits and crashes loses or doubles a record."""

from __future__ import annotations

from random import Random
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from executors import ledger as ledgers
from executors.ledger import Ledger
from schemas.metadata import (
    FRONTIER_SPAN_MAX,
    IN_FLIGHT_MAX,
    METADATA_BYTES_MAX,
    FinishedCounts,
    decode_finished,
    encode_finished,
)

gaps = st.lists(st.integers(1, 3), min_size=1, max_size=40)
"""Distances between records: transaction markers leave holes in the offsets."""


def offsets_of(distances: list[int]) -> list[int]:
    offsets, at = [], 0
    for distance in distances:
        at += distance
        offsets.append(at)
    return offsets


@settings(max_examples=150, deadline=None)
@given(gaps, st.integers(1, 5), st.integers(3, 12), st.randoms(use_true_random=False))
def test_every_record_is_finished_exactly_once_through_any_crashes_however_full_the_ledger(
    distances: list[int], in_flight: int, span: int, random: Random
) -> None:
    with mock.patch.multiple(ledgers, IN_FLIGHT_MAX=in_flight, FRONTIER_SPAN_MAX=span):
        work_through_crashes(distances, random, in_flight)


def work_through_crashes(distances: list[int], random: Random, in_flight: int) -> None:
    log = offsets_of(distances)
    finished: list[int] = []
    committed = ""
    crash = True
    while crash:  # lives of the node; each ends in a crash, which loses all but the commit
        ledger = Ledger(decode_finished(committed) if committed else FinishedCounts(0, 0))
        to_read = [offset for offset in log if offset >= ledger.next_wanted]
        running: list[int] = []
        crash = False
        while not crash and (to_read or running):
            may_read = bool(to_read) and ledger.has_room_for(to_read[0])
            assert may_read or running  # there is always something to do
            step = random.choice([*["read"] * may_read, "commit", "commit", "crash"])
            if step == "read":
                offset = to_read.pop(0)
                if ledger.enter(offset):
                    running.append(offset)
                assert len(running) <= in_flight
            elif step == "commit":
                done = [o for o in running if random.random() < 0.5]
                dead = sum(offset % 5 == 0 for offset in done)
                expired = sum(offset % 5 == 1 for offset in done)
                mflop = sum(done)
                after = ledger.after(done, dead, expired, mflop)
                committed = encode_finished(after)
                assert decode_finished(committed) == after
                ledger.finish(done, dead, expired, mflop)
                assert ledger.counts == after
                finished += done
                running = [o for o in running if o not in done]
                assert after.finished == len(finished)
            elif step == "crash":
                crash = True
    assert sorted(finished) == log
    dead, expired = (sum(offset % 5 == kind for offset in log) for kind in (0, 1))
    whole = FinishedCounts(len(log), log[-1] + 1, dead=dead, expired=expired, work=sum(log))
    assert decode_finished(committed) == whole


@settings(max_examples=50, deadline=None)
@given(gaps, st.data())
def test_the_committed_offset_is_the_lowest_that_is_unfinished(
    distances: list[int], data: st.DataObject
) -> None:
    log = offsets_of(distances)
    ledger = Ledger(FinishedCounts(0, 0))
    for offset in log:
        assert ledger.enter(offset)
    done = data.draw(st.sets(st.sampled_from(log)))
    ledger.finish(done)
    assert ledger.counts.committed == min(set(log) - done, default=log[-1] + 1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=3000), st.sets(st.integers(0, 2999)))
def test_room_keeps_the_metadata_within_what_a_broker_takes(
    distances: list[int], done: set[int]
) -> None:
    ledger = Ledger(FinishedCounts(2**40, 2**50, dead=2**40, expired=2**40, work=2**64 - 1))
    offset = 2**50
    for index, distance in enumerate(distances):
        if not ledger.has_room_for(offset):
            break
        ledger.enter(offset)
        if index in done:
            ledger.finish([offset])
        offset += distance
    counts = ledger.counts
    assert len(counts.unfinished) <= IN_FLIGHT_MAX
    assert counts.frontier - counts.committed <= FRONTIER_SPAN_MAX + max(distances)
    assert len(encode_finished(counts)) <= METADATA_BYTES_MAX
