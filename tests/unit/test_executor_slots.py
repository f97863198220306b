"""Slots bound what runs at once and keep one for urgent work."""

from __future__ import annotations

import pytest

from executors.slots import Slots


def fill(slots: Slots, *, urgent: bool) -> int:
    taken = 0
    while slots.free(urgent=urgent):
        slots.take(urgent=urgent)
        taken += 1
    return taken


@pytest.mark.parametrize(
    ("total", "reserve", "ordinary"),
    [(1, True, 1), (2, True, 1), (8, True, 7), (1, False, 1), (8, False, 8)],
)
def test_ordinary_work_leaves_the_reserve_and_urgent_work_takes_it(
    total: int, reserve: bool, ordinary: int
) -> None:
    slots = Slots(total, reserve=reserve)
    assert fill(slots, urgent=False) == ordinary
    assert fill(slots, urgent=True) == total - ordinary
    assert slots.busy == total


def test_urgent_work_may_take_every_slot() -> None:
    slots = Slots(3, reserve=True)
    assert fill(slots, urgent=True) == 3
    assert not slots.free(urgent=False)
    slots.give_back(urgent=True)
    assert slots.free(urgent=False)


@pytest.mark.parametrize(
    ("total", "reserve", "keeps"), [(1, True, False), (8, False, False), (2, True, True)]
)
def test_a_node_has_a_last_slot_where_it_keeps_one(total: int, reserve: bool, keeps: bool) -> None:
    slots = Slots(total, reserve=reserve)
    last = [slots.last]
    for _ in range(total):
        slots.take(urgent=True)
        last.append(slots.last)
    assert last == [keeps and busy == total - 1 for busy in range(total + 1)]


def test_a_slot_given_back_is_free_for_the_same_work() -> None:
    slots = Slots(2, reserve=True)
    slots.take(urgent=False)
    assert not slots.free(urgent=False)
    slots.give_back(urgent=False)
    assert slots.free(urgent=False)


def test_a_slot_that_is_not_free_cannot_be_taken() -> None:
    slots = Slots(1, reserve=False)
    slots.take(urgent=False)
    with pytest.raises(ValueError, match="no slot"):
        slots.take(urgent=True)
