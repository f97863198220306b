"""Reads server-sent events from bytes as they come.

Pure. Only what inference servers send: the data of each event; names and ids are passed over.
"""

from __future__ import annotations


class EventReader:
    """Bytes in, the data of whole events out; at most one event is held back."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, more: bytes) -> list[bytes]:
        """Return the data of the events that are complete with these bytes."""
        *lines, self._rest = (self._rest + more).split(b"\n")
        found = []
        for ended in lines:
            line = ended.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[len(b"data:") :].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found
