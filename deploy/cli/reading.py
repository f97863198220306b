"""The work of `overspill results`."""

from __future__ import annotations

import sys

from deploy.cli.printing import print_terminal
from deploy.client.reader import Reader
from deploy.client.terminal import Record, read_terminal
from runtime.connection import connection_of
from runtime.settings import Settings

LAST = 10
"""Results printed when nobody says otherwise, as `tail` does."""
OFFSETS_A_RESULT = 2
"""At worst each result has a transaction of its own: its record and its marker."""


async def print_results(
    settings: Settings, *, follow: bool, from_beginning: bool, as_json: bool
) -> None:
    """Print what the topic holds, then, to follow, what comes."""
    names = settings.topics

    def show(records: list[Record]) -> None:
        for record in records:
            print_terminal(read_terminal(record, names), as_json=as_json)
        sys.stdout.flush()

    async with Reader(
        connection_of(settings),
        (names.results,),
        from_end=not from_beginning,
        last=LAST * OFFSETS_A_RESULT,
    ) as reader:
        held: list[Record] = []
        while not await reader.at_end():
            held += await reader.some()
            if from_beginning:
                show(held)
                held = []
        held.sort(key=lambda record: record.timestamp)
        show(held[-LAST:])
        while follow:
            show(await reader.some())
