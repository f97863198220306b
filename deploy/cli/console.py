"""How work in progress is shown: a moving line on a terminal, plain lines anywhere else.

Always on standard error, so that standard output holds nothing but what was asked for.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

import click
from typing_extensions import Self

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Called with one line at a time about what goes on now, from any thread."""

    def __init__(self) -> None:
        self._moving: Status | None = None

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
        """Show the line in place of the one before; without a terminal, below it."""
        if self._moving is None:
            click.echo(line, err=True)
        else:
            self._moving.update(line)

    def settle(self) -> None:
        """End the moving line: what is said from now on stays."""
        if self._moving is not None:
            self._moving.stop()
            self._moving = None
