"""Asks a control worker for its board, once or every second, and draws it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import orjson
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from deploy.cli.called import called
from deploy.cli.tables import console
from deploy.cli.top_screen import top_screen
from schemas.errors import OverspillError, UsageError

EVERY_S = 1.0
ASK_WITHIN_S = 3.0


class NoBoard(OverspillError):
    """No control worker answers at the address given."""


async def print_once(url: str) -> None:
    """Print the board; raise NoBoard, or UsageError if there can be none at such an address."""
    async with _session() as session:
        console().print(top_screen(await _board(session, url)))


async def show_live(url: str) -> None:
    """Show the board every second until cancelled; a worker that falls silent is waited for.

    Raises:
        NoBoard: nobody answered the first time.
        UsageError: there can be none at such an address.
    """
    async with _session() as session:
        first, heard_s = top_screen(await _board(session, url)), time.monotonic()
        with _place() as show:
            show(first)
            while True:
                await asyncio.sleep(EVERY_S)
                try:
                    board = await _board(session, url)
                except NoBoard:
                    show(_lost(time.monotonic() - heard_s))
                else:
                    heard_s = time.monotonic()
                    show(top_screen(board))


@contextmanager
def _place() -> Iterator[Callable[[RenderableType], None]]:
    """Yield what shows one screen in place of the one before; in a pipe, below it."""
    if sys.stdout.isatty():
        with Live(auto_refresh=False, screen=True) as live:
            yield lambda screen: live.update(screen, refresh=True)
    else:
        yield _print_below


def _print_below(screen: RenderableType) -> None:
    console().print(screen, end="\n\n")
    sys.stdout.flush()


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
    except aiohttp.InvalidURL:
        raise UsageError(f"{url} is no address of a page: write it as http://HOST:PORT") from None
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
        raise NoBoard(
            f"no control worker shows its page at {url} ({type(error).__name__}); give --url, as "
            "`overspill up` prints it or as control logs it"
        ) from None
