"""Who starts next: urgency, deadline, arrival; held work waits, aged work gets its share."""

from __future__ import annotations

from executors.heap import AGED_EVERY, AGED_MS, GROUP_STARTS, Heap, Urgency

EXPRESS, REALTIME, NORMAL, BATCH = Urgency
NOW = 1_000_000.0
NEVER = 1e15


def push(
    heap: Heap[str],
    name: str,
    urgency: Urgency = NORMAL,
    *,
    deadline: float = NEVER,
    expires: float = NEVER,
    now: float = NOW,
    not_before: float = 0.0,
    yields_until: float = 0.0,
    group: str | None = None,
) -> None:
    heap.push(
        name,
        urgency,
        deadline_ms=deadline,
        expires_at_ms=expires,
        now_ms=now,
        not_before_ms=not_before,
        yields_until_ms=yields_until,
        group=group,
    )


def pop_all(heap: Heap[str], now: float = NOW) -> list[str]:
    popped = []
    while (waiting := heap.pop(now)) is not None:
        popped.append(waiting.item)
    return popped


def test_express_goes_before_realtime_before_normal_before_batch() -> None:
    heap: Heap[str] = Heap()
    for urgency in (BATCH, NORMAL, REALTIME, EXPRESS):
        push(heap, urgency.name, urgency)
    assert pop_all(heap) == ["EXPRESS", "REALTIME", "NORMAL", "BATCH"]


def test_inside_a_class_the_earliest_deadline_goes_first_and_ties_by_arrival() -> None:
    heap: Heap[str] = Heap()
    push(heap, "late", deadline=3)
    push(heap, "first", deadline=2)
    push(heap, "second", deadline=2)
    push(heap, "early", deadline=1)
    assert pop_all(heap) == ["early", "first", "second", "late"]


def test_only_urgent_work_is_popped_as_urgent() -> None:
    heap: Heap[str] = Heap()
    push(heap, "normal", NORMAL, deadline=1)
    push(heap, "batch", BATCH)
    assert heap.pop_urgent(NOW) is None
    push(heap, "realtime", REALTIME)
    urgent = heap.pop_urgent(NOW)
    assert urgent is not None
    assert urgent.item == "realtime"
    assert pop_all(heap) == ["normal", "batch"]


def test_work_leaves_the_last_slot_to_others_until_its_moment() -> None:
    heap: Heap[str] = Heap()
    push(heap, "long", REALTIME, yields_until=NOW + 50)
    push(heap, "batch", BATCH)
    assert heap.pop_urgent(NOW) is None
    assert heap.next_moment_ms == NOW + 50
    last = heap.pop(NOW, last=True)
    assert last is not None
    assert last.item == "batch"
    assert heap.pop(NOW, last=True) is None
    long = heap.pop_urgent(NOW + 50)
    assert long is not None
    assert long.item == "long"


def test_work_that_yields_the_last_slot_takes_any_other_in_its_turn() -> None:
    heap: Heap[str] = Heap()
    push(heap, "second", NORMAL, deadline=2)
    push(heap, "first", NORMAL, deadline=1, yields_until=NEVER)
    push(heap, "third", BATCH, yields_until=NEVER)
    assert pop_all(heap) == ["first", "second", "third"]


def test_aged_work_has_its_share_of_last_slots_though_older_work_yields_them() -> None:
    heap: Heap[str] = Heap()
    push(heap, "yields", BATCH, yields_until=NEVER)
    push(heap, "aged", BATCH)
    for number in range(2 * AGED_EVERY):
        push(heap, str(number), NORMAL, deadline=number, now=NOW + AGED_MS)
    started = [heap.pop(NOW + AGED_MS, last=True) for _ in range(AGED_EVERY)]
    assert [one and one.item for one in started] == [*map(str, range(AGED_EVERY - 1)), "aged"]


def test_aged_work_that_yields_gets_its_share_of_all_slots_but_the_last() -> None:
    heap: Heap[str] = Heap()
    push(heap, "aged", BATCH, yields_until=NEVER)
    for number in range(2 * AGED_EVERY):
        push(heap, str(number), NORMAL, deadline=number, now=NOW + AGED_MS)
    for number in range(AGED_EVERY):
        last = heap.pop(NOW + AGED_MS, last=True)
        assert last is not None
        assert last.item == str(number)
    its_turn = heap.pop(NOW + AGED_MS)
    assert its_turn is not None
    assert its_turn.item == "aged"


def test_held_work_waits_for_its_moment_and_lets_others_by() -> None:
    heap: Heap[str] = Heap()
    push(heap, "held", EXPRESS, not_before=NOW + 10)
    push(heap, "batch", BATCH)
    assert len(heap) == 2
    assert heap.next_moment_ms == NOW + 10
    assert pop_all(heap) == ["batch"]
    assert pop_all(heap, NOW + 9) == []
    assert pop_all(heap, NOW + 10) == ["held"]
    assert heap.next_moment_ms is None


def test_expired_work_comes_out_from_wherever_it_waits() -> None:
    heap: Heap[str] = Heap()
    push(heap, "urgent", EXPRESS)
    push(heap, "deep", BATCH, expires=NOW + 1)
    push(heap, "held", expires=NOW + 1, not_before=NOW + 5)
    assert heap.take_expired(NOW) == []
    assert [waiting.item for waiting in heap.take_expired(NOW + 1)] == ["deep", "held"]
    assert heap.next_moment_ms is None
    assert pop_all(heap, NOW + 9) == ["urgent"]


def test_removed_work_never_starts() -> None:
    heap: Heap[str] = Heap()
    for name in ("a1", "b1", "a2"):
        push(heap, name)
    push(heap, "a3", not_before=NOW + 1)
    assert [waiting.item for waiting in heap.remove(lambda name: name[0] == "a")] == [
        "a1",
        "a2",
        "a3",
    ]
    assert pop_all(heap, NOW + 1) == ["b1"]
    assert len(heap) == 0


def test_batch_is_not_starved_by_work_that_never_stops_coming() -> None:
    """With n aged pieces ahead of it, one starts within AGED_EVERY x (n + 1) starts."""
    heap: Heap[str] = Heap()
    for number in range(3):
        push(heap, f"batch{number}", BATCH)
    starts = []
    for _ in range(AGED_EVERY * 3):
        push(heap, "realtime", REALTIME, now=NOW + AGED_MS)
        waiting = heap.pop(NOW + AGED_MS)
        assert waiting is not None
        starts.append(waiting.item)
    assert [name for name in starts if name != "realtime"] == ["batch0", "batch1", "batch2"]
    assert starts.index("batch2") < AGED_EVERY * 3


def test_an_aged_backlog_costs_urgent_work_a_quarter_of_the_starts_at_most() -> None:
    heap: Heap[str] = Heap()
    for _ in range(1000):
        push(heap, "batch", BATCH)
    starts = []
    for _ in range(400):
        push(heap, "realtime", REALTIME, now=NOW + AGED_MS)
        waiting = heap.pop(NOW + AGED_MS)
        assert waiting is not None
        starts.append(waiting.item)
    assert starts.count("batch") == 400 / AGED_EVERY


def test_work_that_was_held_ages_from_its_moment() -> None:
    heap: Heap[str] = Heap()
    push(heap, "held", BATCH, not_before=NOW + 500)
    push(heap, "later", BATCH, now=NOW + 1000)
    aged = NOW + 1000 + AGED_MS
    for _ in range(AGED_EVERY - 1):
        push(heap, "realtime", REALTIME, now=aged)
        heap.pop(aged)
    push(heap, "realtime", REALTIME, now=aged)
    waiting = heap.pop(aged)
    assert waiting is not None
    assert waiting.item == "held"


def test_young_batch_gives_way() -> None:
    heap: Heap[str] = Heap()
    push(heap, "batch", BATCH)
    for _ in range(50):
        push(heap, "realtime", REALTIME, now=NOW + AGED_MS - 1)
        waiting = heap.pop(NOW + AGED_MS - 1)
        assert waiting is not None
        assert waiting.item == "realtime"


def test_the_heap_keeps_nothing_of_work_that_left_past_its_order() -> None:
    heap: Heap[int] = Heap()
    for number in range(10_000):
        heap.push(
            number, BATCH, deadline_ms=NEVER, expires_at_ms=NOW + 1, now_ms=NOW, not_before_ms=0
        )
        heap.take_expired(NOW + 1)
    assert len(heap._order) < 200
    assert not heap._members


def test_the_heap_keeps_nothing_of_work_that_yields_no_more() -> None:
    heap: Heap[str] = Heap()
    started = 0
    for number in range(2000):
        now = NOW + number
        push(heap, str(number), REALTIME, now=now, yields_until=now + 1)
        started += heap.pop_urgent(now) is not None
    assert started == 1999
    assert len(heap._yielding) < 200
    assert len(heap._moments) < 200


def test_work_of_the_adapter_started_last_passes_others_of_its_class() -> None:
    heap: Heap[str] = Heap()
    for number in range(2):
        for adapter in ("code", "news"):
            push(heap, f"{adapter}{number}", group=adapter)
    assert pop_all(heap) == ["code0", "code1", "news0", "news1"]


def test_no_adapter_passes_a_more_urgent_class() -> None:
    heap: Heap[str] = Heap()
    push(heap, "code0", NORMAL, group="code")
    push(heap, "news", NORMAL, group="news")
    push(heap, "code1", BATCH, group="code")
    assert pop_all(heap) == ["code0", "news", "code1"]


def test_realtime_goes_by_its_deadline_and_turns_no_adapter() -> None:
    heap: Heap[str] = Heap()
    push(heap, "code0", group="code")
    push(heap, "news", group="news")
    push(heap, "code1", group="code")
    first = heap.pop(NOW)
    push(heap, "later", REALTIME, deadline=2, group="code")
    push(heap, "sooner", REALTIME, deadline=1, group="news")
    assert first is not None
    assert [first.item, *pop_all(heap)] == ["code0", "sooner", "later", "code1", "news"]


def test_the_first_in_order_is_passed_only_so_often() -> None:
    heap: Heap[str] = Heap()
    push(heap, "code", group="code")
    push(heap, "news", group="news")
    starts = []
    for _ in range(2 * GROUP_STARTS):
        push(heap, "code", group="code")
        waiting = heap.pop(NOW)
        assert waiting is not None
        starts.append(waiting.item)
    assert starts.index("news") == GROUP_STARTS + 1


def test_work_that_has_spent_a_quarter_of_its_time_is_passed_no_more() -> None:
    heap: Heap[str] = Heap()
    push(heap, "code0", deadline=NOW + 1, group="code")
    push(heap, "news", deadline=NOW + 4000, group="news")
    push(heap, "code1", deadline=NOW + 5000, group="code")
    push(heap, "code2", deadline=NOW + 5000, group="code")
    order = [heap.pop(NOW), heap.pop(NOW + 999), heap.pop(NOW + 1000), heap.pop(NOW + 1000)]
    assert [waiting and waiting.item for waiting in order] == ["code0", "code1", "news", "code2"]
