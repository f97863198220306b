"""Asks a control worker for its board, once or every second, and draws it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import orjson
from rich.live import Live
from rich.text import Text

from deploy.cli.called import called
from deploy.cli.tables import console
from deploy.cli.top_screen import top_screen
from schemas.errors import OverspillError

EVERY_S = 1.0
ASK_WITHIN_S = 3.0


class NoBoard(OverspillError):
    """No control worker answers at the address given."""


async def print_once(url: str) -> None:
    """Print the board; raise NoBoard."""
    async with _session() as session:
        console().print(top_screen(await _board(session, url)))


async def show_live(url: str) -> None:
    """Show the board every second until cancelled; a worker that falls silent is waited for.

    Raises:
        NoBoard: nobody answered the first time.
    """
    async with _session() as session:
        shown, heard_s = top_screen(await _board(session, url)), time.monotonic()
        with Live(shown, auto_refresh=False, screen=True) as live:
            while True:
                await asyncio.sleep(EVERY_S)
                try:
                    shown, heard_s = top_screen(await _board(session, url)), time.monotonic()
                    live.update(shown, refresh=True)
                except NoBoard:
                    live.update(_lost(time.monotonic() - heard_s), refresh=True)


def _lost(silent_s: float) -> Text:
    return Text.assemble(
        ("ACT  ", "bold red"),
        ("Control does not answer: it is dead, or out of reach from here\n", "bold"),
        f"     Silent for {silent_s:.0f} s. Requests go on: routers use what they knew (stale),\n"
        "     after 30 s they decide without knowing the fleet (blind). Nothing is lost.\n",
        (
            f"     What to do: start {called()} control again, or ask the worker that stands by.",
            "dim",
        ),
    )


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_WITHIN_S))


async def _board(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    try:
        async with session.get(f"{url.rstrip('/')}/board") as answer:
            answer.raise_for_status()
            board: dict[str, Any] = orjson.loads(await answer.read())
            return board
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
        raise NoBoard(
            f"no control worker shows its page at {url} ({type(error).__name__}); give --url, as "
            "`overspill up` prints it or as control logs it"
        ) from None
