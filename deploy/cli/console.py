"""How work in progress is shown: a moving line on a terminal, plain lines anywhere else.

Always on standard error, so that standard output holds nothing but what was asked for.
"""

from __future__ import annotations

import re
import sys
import time
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING

import click
from typing_extensions import Self

if TYPE_CHECKING:
    from rich.status import Status


COUNTING_EVERY_S = 10.0
"""Without a terminal, of a line that only counts on: a log needs no more."""
_NUMBER = re.compile(r"\d[\d.,]*")


class Progress:
    """Called with one line at a time about what goes on now, from any thread."""

    def __init__(self) -> None:
        self._moving: Status | None = None
        self._words = ""
        self._said_s = -inf
        self._settled = False

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._moving = Console(stderr=True).status("Starting")
            self._moving.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.settle()

    def __call__(self, line: str) -> None:
        """Show the line in place of the one before; without a terminal, below it if it is news."""
        if self._moving is not None:
            self._moving.update(line)
            return
        words, now_s = _NUMBER.sub("#", line), time.monotonic()
        counts_on = words == self._words and now_s - self._said_s < COUNTING_EVERY_S
        # Work that goes on counts; what is said once it is done tells of something that happened.
        if self._settled or not counts_on:
            self._words, self._said_s = words, now_s
            click.echo(line, err=True)

    def settle(self) -> None:
        """End the moving line: what is said from now on stays, every line of it."""
        self._settled = True
        if self._moving is not None:
            self._moving.stop()
            self._moving = None
