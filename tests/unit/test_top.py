"""`overspill top` shows in a terminal what the page shows, and no name moves the cursor."""

from __future__ import annotations

import asyncio
import re
import time

import pytest
from rich.console import Console

from deploy.cli import top_live
from deploy.cli.top_live import NoBoard, print_once, show_live
from deploy.cli.top_screen import top_screen
from runtime.ports import free_port
from schemas.errors import UsageError
from streams.board.document import document
from tests.boards import Screen, now_ms, served
from tests.fleet import node
from tests.waiting import until


def drawn(screen: Screen) -> str:
    console = Console(width=160, force_terminal=True)
    with console.capture() as captured:
        console.print(top_screen(document(screen.board, now_ms(), time.monotonic())))
    return captured.get()


def test_the_screen_says_what_is_wrong_where_requests_went_and_how_nodes_fare() -> None:
    screen = Screen()
    screen.look(node("gpu-1", unfinished=31), node("cpu-1", slowness=3.0), node("npu-1"))
    screen.decide("overflow", "cpu", 1234)
    screen.decide("dead:too-deep", None, 2)
    shown = drawn(screen)
    for words in ("Node cpu-1 (cpu) is slow", "Work overflows", "1,234", "too-deep 2", "gpu-1"):
        assert words in shown


def test_it_says_how_long_what_to_type_and_how_many_nodes_there_should_be() -> None:
    screen = Screen()
    dead = node("gpu-1", live=False, unfinished=3)
    screen.look(dead, node("cpu-1"), node("cpu-2", live=False), node("npu-1"))
    shown = " ".join(drawn(screen).split())
    assert re.search(r"since \d\d:\d\d:\d\d, 0 s ago or longer", shown)
    assert "0 of 1 known" in shown
    assert "1 of 2 known" in shown
    assert "no nodes" in shown
    assert "`" not in shown


def test_a_name_changes_no_colour_and_moves_no_cursor() -> None:
    screen = Screen()
    evil = "\x1b[2Jgone\r"
    screen.look(node("gpu-1"), node("cpu-1"), node("npu-1", live=False, reason=evil))
    shown = drawn(screen)
    assert "?[2Jgone?" in shown
    assert "\x1b[2J" not in shown


async def test_it_asks_a_worker_once_and_says_how_where_none_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen()
    screen.look(node("gpu-1"), node("cpu-1"), node("npu-1"))
    monkeypatch.setattr(top_live, "ASK_WITHIN_S", 60.0)
    async with served(screen) as url:
        await print_once(url)
    assert "All is well" in capsys.readouterr().out
    with pytest.raises(NoBoard, match="give --url"):
        await print_once(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UsageError, match="write it as http://HOST:PORT"):
        await print_once("127.0.0.1")


async def test_in_a_pipe_each_screen_comes_below_the_one_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, shown = Screen(), ""

    def screens() -> int:
        nonlocal shown
        shown += capsys.readouterr().out
        return shown.count("All is well")

    screen.look(node("gpu-1"), node("cpu-1"), node("npu-1"))
    monkeypatch.setattr(top_live, "ASK_WITHIN_S", 60.0)
    monkeypatch.setattr(top_live, "EVERY_S", 0.01)
    async with served(screen) as url:
        showing = asyncio.ensure_future(show_live(url))
        await until(lambda: screens() > 1)
        showing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await showing
