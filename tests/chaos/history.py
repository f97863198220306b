"""The history of a run: one JSON object a line, written as it happens, judged again at any time.

The first line has the seed; what is needed to make the same run again stands there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import orjson

from schemas.headers import Origin
from tests.chaos.oracle import End, Entry, History, Sent
from tests.chaos.traffic import ends_of


class HistoryFile:
    """Takes notes of one run.

    Attributes:
        path: where they stand.
    """

    def __init__(self, path: Path, **run: Any) -> None:
        self.path = path
        self._file: BinaryIO = path.open("wb")
        self.note("run", **run)

    def note(self, what: str, **facts: Any) -> None:
        """Write a line."""
        self._file.write(orjson.dumps({"what": what, **facts}) + b"\n")

    def at(self, what: str, origin: Origin, **facts: Any) -> None:
        """Write a line about a record of `requests`."""
        self.note(what, origin=origin.encode().decode(), **facts)

    def close(self) -> None:
        """End the notes."""
        self._file.close()


def read_history(path: Path) -> History:
    """Return the evidence in a history file; lines of other kinds are for people."""
    sent: dict[int, Origin | None] = {}
    requests: dict[Origin, int | None] = {}
    ends: list[End] = []
    repeats: list[Origin] = []
    seen: set[Origin] = set()
    books: list[Entry] = []
    at_rest = False
    run, *notes = map(orjson.loads, path.read_bytes().splitlines())
    for note in notes:
        what, origin = note["what"], Origin.decode(note.get("origin", "none/0/0").encode())
        if what == "send":
            sent.setdefault(note["number"], None)
        elif what == "acknowledged":
            sent[note["number"]] = origin
        elif what == "request":
            requests[origin] = note["number"]
        elif what == "end":
            ends.append(End(origin, note["is_letter"], note["how"]))
        elif what == "repeat":
            repeats.append(origin)
        elif what == "seen":
            seen.add(origin)
        elif what == "entry":
            books.append(Entry(note["name"], note["counted"], note["found"]))
        elif what == "rest":
            at_rest = note["at_rest"]
    return History(
        tuple(Sent(number, at) for number, at in sent.items()),
        requests,
        tuple(ends),
        tuple(repeats),
        frozenset(seen),
        tuple(books),
        at_rest,
        {at: ends_of(run["seed"], number) for at, number in requests.items() if number is not None},
    )
