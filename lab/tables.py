"""A table of what was found. Knows nothing of what is in it, nor where it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """What was found about one claim, as cells of text."""

    name: str
    claim: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def in_markdown(table: Table) -> str:
    """Return a table with its claim above it."""
    lines = [f"### {table.name}", "", table.claim, "", f"| {' | '.join(table.columns)} |"]
    lines.append("|" + "---|" * len(table.columns))
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return "\n".join(lines) + "\n"
