"""The board counts what was decided and run, and says in plain words what is amiss."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.observability.alerts import ALERTS
from schemas.capability import Capability
from schemas.control import NodeTotals
from schemas.outcomes import Mode, Reason
from schemas.pools import DEFAULT_POOLS, ComputeType
from schemas.reasons import IN_WORDS
from schemas.request import Priority
from schemas.service import UNKNOWN_SIZE, ServiceTime
from streams.board import pages
from streams.board.board import Board
from streams.board.condition import Condition
from streams.board.conditions import conditions
from streams.board.document import document, history
from streams.board.history import EVERY_MS, KEPT_MS
from streams.board.since import look
from streams.board.spells import BREAK_MS, Spells
from tests.boards import Screen, now_ms
from tests.fleet import node

FLEET = (node("gpu-1"), node("cpu-1"), node("npu-1"))


def said(screen: Screen, later_s: float = 0.0) -> list[Condition]:
    now_s = time.monotonic() + later_s
    return conditions(screen.board, now_ms() + int(later_s * 1000), now_s)


def shown(screen: Screen) -> dict[str, Any]:
    return document(screen.board, now_ms(), time.monotonic())


def names(screen: Screen) -> list[str]:
    return [one.name for one in said(screen)]


def took(ms: float) -> tuple[ServiceTime, ...]:
    return (ServiceTime(model="m", size=UNKNOWN_SIZE, count=50, p50=ms, p95=2 * ms),)


def test_a_fleet_at_work_is_said_to_be_well() -> None:
    screen = Screen()
    screen.look(*FLEET)
    screen.decide("gpu-preferred", "gpu", 40)
    assert [(one.level, one.title) for one in said(screen)] == [("good", "All is well")]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (
            (node("gpu-1", unfinished=5, live=False, reason="no report for 3 s"), *FLEET[1:]),
            ["OverspillPoolDown"],
        ),
        ((*FLEET, node("gpu-2", slowness=3.0)), ["OverspillNodeSlow"]),
        ((*FLEET, node("gpu-2", live=False)), ["OverspillNodeDown"]),
        (
            (
                node("gpu-1", unfinished=40),
                node("cpu-1", unfinished=9),
                node("npu-1", unfinished=8),
            ),
            ["OverspillSaturated"],
        ),
    ],
)
def test_what_is_wrong_with_nodes_and_pools_has_a_name_and_a_remedy(
    nodes: tuple[Any, ...], expected: list[str]
) -> None:
    screen = Screen()
    screen.look(*nodes)
    assert names(screen) == expected
    assert all(one.meaning and one.remedy for one in said(screen))


def test_a_pool_that_is_down_names_its_nodes_and_why_they_are_dead() -> None:
    screen = Screen()
    dead = [node(f"gpu-{number}", live=False, reason="no report for 3 s") for number in range(6)]
    screen.look(*dead, *FLEET[1:])
    (down,) = said(screen)
    assert "gpu-0: no report for 3 s; gpu-1" in down.meaning
    assert down.meaning.endswith("; and 2 more.")


def test_a_pool_that_never_had_a_node_is_a_note_and_gpu_without_one_is_not() -> None:
    screen = Screen()
    screen.look(node("cpu-1"))
    assert [(one.level, one.title.split(":")[0]) for one in said(screen)] == [
        ("bad", "Pool gpu is down"),
        ("note", "Pool npu has no node"),
    ]


def test_a_system_without_any_node_says_so_once_and_how_to_start_one() -> None:
    screen = Screen()
    screen.look()
    (one,) = said(screen)
    assert (one.level, one.title) == ("bad", "There are no nodes: nothing can run")
    assert "`overspill executor --pool gpu`" in one.remedy


@pytest.mark.parametrize(
    ("fares", "name", "title"),
    [
        ({"live": False, "reason": "no report"}, "OverspillNodeDown", "nodes of gpu are down"),
        ({"slowness": 4.0}, "OverspillNodeSlow", "nodes of gpu are slow"),
        ({"draining": True}, "", "nodes drain"),
    ],
)
def test_nodes_that_fare_alike_are_told_one_by_one_up_to_four(
    fares: dict[str, Any], name: str, title: str
) -> None:
    for count in (4, 5):
        screen = Screen()
        screen.look(*FLEET, *(node(f"gpu-{number}", **fares) for number in range(2, 2 + count)))
        told = [one for one in said(screen) if one.level != "good"]
        assert {one.name for one in told} == {name}
        assert len(told) == (1 if count == 5 else 4)
    assert told[0].title == f"5 {title}"
    assert "gpu-2" in told[0].meaning
    assert "gpu-6" not in told[0].meaning


def test_what_is_amiss_says_since_when_whatever_its_numbers_do() -> None:
    screen = Screen()
    screen.look(*FLEET, node("gpu-2", live=False))
    since_ms, maybe_longer = told(screen, 1)["OverspillNodeDown"]
    assert since_ms <= 1_000
    assert maybe_longer  # it may have been so for hours
    told(screen, *range(2, 20))
    screen.decide("dead:not-json", None, 3)
    assert told(screen, 20)["OverspillDeadLettersRising"] == (20_000, False)
    screen.decide("dead:not-json", None, 3)
    assert told(screen, 23)["OverspillDeadLettersRising"] == (20_000, False)
    assert told(screen, 40)["OverspillDeadLettersRising"] == (40_000, True)  # who looked meanwhile?


def test_what_a_worker_finds_when_it_takes_over_may_have_lasted_longer() -> None:
    screen = Screen()
    screen.board.trouble = lambda: None
    assert list(told(screen, 3_600).values()) == [(3_600_000, False)]
    screen.look(*FLEET, node("gpu-2", live=False))
    assert told(screen, 3_601)["OverspillNodeDown"] == (3_601_000, True)
    told(screen, *range(3_602, 3_620))
    screen.decide("dead:not-json", None, 3)
    assert told(screen, 3_620) == {
        "OverspillNodeDown": (3_601_000, True),
        "OverspillDeadLettersRising": (3_620_000, False),
    }


def told(screen: Screen, *after_s: int) -> dict[str, tuple[int, bool]]:
    """Look so many seconds after the worker began; return since when (ms after that) each lasts."""
    began_ms, seen_s = screen.board.since_ms, time.monotonic()
    for at_ms in (began_ms + 1000 * each_s for each_s in after_s):
        look(screen.board, at_ms, seen_s)
        found = document(screen.board, at_ms, seen_s)["conditions"]
    return {one["name"]: (one["since_ms"] - began_ms, one["maybe_longer"]) for one in found}


def test_what_flickers_goes_on_and_what_was_away_begins_anew() -> None:
    spells = Spells()
    spells.saw(["full"], 1_000)
    spells.saw([], 1_000 + BREAK_MS)
    assert spells.begun_ms("full", 1_000 + BREAK_MS) == 1_000
    spells.saw([], 1_001 + BREAK_MS)
    assert spells.begun_ms("full", 1_001 + BREAK_MS) == 1_001 + BREAK_MS


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((node("gpu-1", live=False, unfinished=3), *FLEET[1:]), "no nodes"),
        ((node("gpu-1", unfinished=3), *FLEET[1:]), "nothing finishes"),
        (FLEET, ""),
    ],
    ids=["nobody there", "nobody works", "nothing to do"],
)
def test_where_no_time_to_drain_can_be_told_it_says_why(nodes: tuple[Any, ...], words: str) -> None:
    screen = Screen()
    screen.look(*nodes)
    (gpu,) = (pool for pool in shown(screen)["pools"] if pool["name"] == "gpu")
    assert gpu["no_drain"] == words


def test_records_that_wait_while_nothing_is_finished_make_a_pool_stand_still() -> None:
    screen = Screen()
    screen.look(node("gpu-1", unfinished=3), *FLEET[1:], oldest_s=29)
    assert "OverspillConsumerStalled" not in names(screen)
    screen.look(node("gpu-1", unfinished=3), *FLEET[1:], oldest_s=31)
    assert "OverspillConsumerStalled" in names(screen)


def test_requests_that_no_router_takes_are_told_apart_from_those_that_one_will_take() -> None:
    screen = Screen()
    screen.decide("gpu-preferred", "gpu", 1)
    screen.look(*FLEET, ends=(3, 4))
    assert names(screen) == [""]
    assert shown(screen)["undecided"] == 7
    assert [one.name for one in said(screen, later_s=2)] == [""]
    screen.board.tally.routers["router-1"] = screen.board.tally.routers["router-1"]._replace(
        at_s=time.monotonic() - 11
    )
    assert names(screen) == ["OverspillRoutersDead"]


@pytest.mark.parametrize(
    ("mode", "level", "word"), [(Mode.STALE, "warn", "stale"), (Mode.BLIND, "bad", "blind")]
)
def test_a_degraded_mode_is_said_in_plain_words(mode: Mode, level: str, word: str) -> None:
    screen = Screen()
    screen.look(*FLEET)
    screen.decide("gpu-preferred", "gpu", 1, mode=mode.value)
    (one,) = said(screen)
    assert (one.level, one.name) == (level, "OverspillSignalsStale")
    assert word in one.title


def test_a_worker_that_sees_nothing_says_why_and_shows_no_old_number() -> None:
    screen = Screen()
    screen.look(node("gpu-1", unfinished=20), *FLEET[1:])
    screen.board.trouble = lambda: "joining"
    (silent,) = said(screen, later_s=4)
    assert (silent.level, "joining" in silent.meaning) == ("bad", True)
    screen.board.trouble = lambda: None
    screen.gauges.silent()
    assert [one.title for one in said(screen)] == ["This worker stands by"]
    assert shown(screen)["pools"] == shown(screen)["nodes"] == []
    screen.board.kafka_away_s = time.monotonic() - 12
    (away,) = said(screen)
    assert (away.name, round(away.for_s or 0)) == ("OverspillKafkaAway", 12)
    (told,) = shown(screen)["conditions"]
    assert not told["maybe_longer"]  # since when Kafka is away is known


def test_dead_letters_and_errors_are_warned_of_and_many_of_them_are_bad() -> None:
    screen = Screen()
    screen.look(*FLEET, totals={"gpu-1": NodeTotals(results={"ok": 5})})
    screen.decide("gpu-preferred", "gpu", 100)
    screen.decide("dead:not-json", None, 3)
    levels = {one.name: one.level for one in said(screen)}
    assert levels == {"OverspillDeadLettersRising": "warn"}
    screen.decide("dead:too-deep", None, 9)
    totals = NodeTotals(results={"ok": 105, "error": 9}, errors={"backend-error": 9})
    screen.look(*FLEET, totals={"gpu-1": totals})
    levels = {one.name: one.level for one in said(screen)}
    assert levels == {"OverspillDeadLettersRising": "bad", "OverspillErrorsHigh": "bad"}
    assert [(one["category"], one["total"]) for one in shown(screen)["dead_letters"]] == [
        ("too-deep", 9),
        ("not-json", 3),
    ]


def test_missed_objectives_burn_and_those_of_requests_that_expired_at_a_router_too() -> None:
    screen = Screen()
    totals = NodeTotals(met=95)
    screen.look(*FLEET, totals={"gpu-1": NodeTotals()})
    screen.look(*FLEET, totals={"gpu-1": totals})
    assert shown(screen)["slo"]["attained"] == 1.0
    screen.decide(Reason.EXPIRED.value, None, 3, slo_ms=100.0)
    screen.decide(Reason.UNROUTABLE.value, None, 2, priority=Priority.REALTIME)
    screen.decide(Reason.EXPIRED.value, None, 50)  # without an objective: none is missed
    slo = shown(screen)["slo"]
    assert (slo["met"], slo["missed"], slo["attained"]) == (95, 5, 0.95)
    assert slo["burn"] == pytest.approx(5.0)
    assert "OverspillSLOBurnSlow" in names(screen)


def test_counts_of_nodes_are_what_they_added_through_restarts_and_first_meetings() -> None:
    board = Board(DEFAULT_POOLS, 0)
    report = board.tally.reported
    report("old", NodeTotals(results={"ok": 1000}, cost=50.0))  # ran before this worker began
    report("old", NodeTotals(results={"ok": 1004}, cost=50.5))
    report("new", NodeTotals())
    report("new", NodeTotals(results={"ok": 7}, cost=1.0, met=2))
    report("new", NodeTotals(results={"ok": 2}, cost=0.25, missed=1))  # anew, under its old name
    counts = board.tally.counts
    assert (counts.results, counts.spent) == ({"ok": 13}, 1.75)
    assert (counts.met, counts.missed) == (2, 1)


def test_saving_is_told_of_requests_whose_run_time_is_known_on_both_sides() -> None:
    screen = Screen()
    screen.look(*FLEET)
    screen.decide("overflow", "cpu", 10)
    assert shown(screen)["cost"]["saved"] is None
    service = {ComputeType.GPU: took(50.0), ComputeType.CPU: took(200.0)}
    screen.look(*FLEET, service=service)
    screen.decide("overflow", "cpu", 10)  # 0.1 x 200 ms instead of 1.0 x 50 ms
    screen.decide("gpu-preferred", "gpu", 10)
    screen.decide("lora", "npu", 10)  # never measured: on neither side
    cost = shown(screen)["cost"]
    assert cost["expected_routed"] == pytest.approx(10 * 0.02 + 10 * 0.05)
    assert cost["expected_gpu_only"] == pytest.approx(20 * 0.05)
    assert cost["saved"] == pytest.approx(0.3)


def test_orders_that_stand_are_noted_with_who_and_why() -> None:
    screen = Screen()
    screen.look(*FLEET, node("gpu-2", draining=True, reason="drained by ann: new fans"))
    (note,) = said(screen)
    assert (note.level, "new fans" in note.meaning) == ("note", True)
    assert note.remedy.endswith("`overspill nodes resume gpu-2`")


def test_a_node_shows_its_worst_golden_error_and_its_oldest_validation() -> None:
    def proven(at_ms: int, error: float | None) -> Capability:
        return Capability(
            device="d", model="m", max_concurrency=1, golden_error=error, validated_at_ms=at_ms
        )

    screen = Screen()
    screen.look(
        *FLEET,
        proven={
            "gpu-1": (proven(7, 0.0003), proven(5, 0.0001), proven(9, None)),
            "cpu-1": (proven(7, None),),
        },
    )
    assert {one["id"]: one["proven"] for one in shown(screen)["nodes"]} == {
        "gpu-1": {"golden_error": 0.0003, "validated_at_ms": 5},
        "cpu-1": {"golden_error": None, "validated_at_ms": 7},
        "npu-1": None,
    }


def test_the_last_ten_minutes_are_kept_and_no_more() -> None:
    board = Board(DEFAULT_POOLS, 0)
    for at_ms in range(0, 3 * KEPT_MS, EVERY_MS // 2):
        board.remember(at_ms, at_ms / 1000)
    columns = history(board)
    assert columns["at_s"][-1] - columns["at_s"][0] == KEPT_MS / 1000
    assert len(columns["at_s"]) == KEPT_MS / EVERY_MS + 1
    assert {len(column) for column in columns["depths"].values()} == {len(columns["at_s"])}


def test_what_the_page_says_has_the_name_of_an_alert() -> None:
    board = Path(pages.__file__).parent
    sources = [*board.glob("*.py"), board / "page" / "board.js"]
    named = {n for path in sources for n in re.findall(r'"(Overspill\w+)"', path.read_text())}
    assert len(named) > 10
    assert named <= {alert.name for alert in ALERTS}


def test_every_reason_has_words() -> None:
    assert IN_WORDS.keys() == {reason.value for reason in Reason}
