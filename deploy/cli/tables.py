"""Where tables are printed: whole, on a terminal of any width and in a pipe."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

PIPE_COLUMNS = 1_000
"""Wider than any table of ours: who reads a pipe or a file wants whole names, a line a row."""


def console() -> Console:
    """Return the console for standard output; only a terminal has a width to respect."""
    return Console() if sys.stdout.isatty() else Console(width=PIPE_COLUMNS)


def table(names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """Return a table with these columns; a narrow terminal folds what it would else cut off."""
    columns = Table(box=None, pad_edge=False)
    for heading in names:
        columns.add_column(heading, overflow="fold")
    for heading in numbers:
        columns.add_column(heading, justify="right", overflow="fold")
    return columns
