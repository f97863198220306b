"""A group that imports a command's module only when that command is asked for.

Knows no command: it is given names, places and one line of help each.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    """One command of a lazy group: `module:attribute`, and its line in the group's help."""

    place: str
    help: str


class LazyGroup(click.Group):
    """A group whose help lists its commands without importing them, in the order given."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names as they were declared: what one starts with comes first."""
        del ctx
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        del ctx
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from their entries."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self._entries.items()])
