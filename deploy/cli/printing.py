"""How one terminal record is printed: a line for people, or the record's own JSON."""

from __future__ import annotations

from typing import Any

import click

from deploy.client.terminal import Terminal
from schemas.document import to_json
from schemas.message import encode

TEXT_MAX = 70
"""Characters of model text on one line."""


def print_terminal(terminal: Terminal, *, as_json: bool) -> None:
    """Print one terminal record."""
    if not as_json:
        click.echo(line_of(terminal))
    elif terminal.result is not None:
        click.echo(encode(terminal.result))
    else:
        error = {"category": terminal.category, "message": terminal.message}
        click.echo(to_json({"id": terminal.id, "status": "dead-letter", "error": error}))


def line_of(terminal: Terminal) -> str:
    """Return a terminal record as one line: id, status, where and why, time, text or error."""
    result = terminal.result
    if result is None:
        return f"{terminal.id or '-'}  dead-letter  {terminal.category}: {terminal.message}"
    served = result.served_by
    parts = [result.id, result.status.value]
    if served is not None:
        parts.append(f"{served.pool}{' (emulated)' if served.emulated else ''}")
    parts += [result.decision.reason.value, f"{result.timings_ms.total:.0f} ms"]
    if result.error is not None:
        parts.append(f"{result.error.category.value}: {result.error.message}")
    elif result.output is not None:
        parts.append(text_of(result.output))
    return "  ".join(parts)


def text_of(output: dict[str, Any]) -> str:
    """Return what a model said, on one line and shortened; other outputs as JSON."""
    try:
        choice = output["choices"][0]
        said = choice["text"] if "text" in choice else choice["message"]["content"]
        text = " ".join(str(said).split())
    except (KeyError, IndexError, TypeError):
        text = to_json(output).decode()
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= TEXT_MAX else f"{shown[: TEXT_MAX - 3]}..."
