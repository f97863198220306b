"""What a lane has fetched and not yet taken: runs of records of one source, in order of arrival.

Owns how much one transaction takes. Pure: knows nothing of fetching, nor of what a record says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from runtime.kafka.records import Received
from schemas.headers import header_bytes

RECORDS_MAX = 1000
"""A transaction costs about 10 ms whatever it holds; beyond this its own latency grows instead."""
BATCH_BYTES_MAX = 480 * 1024
"""Of keys, values and headers. A decision row holds no text but the request's own, so that with 300
bytes a row and a snapshot of 200 KB the decisions record stays under its 1 MiB."""


class Run(NamedTuple):
    """Records that came one after another from one source (an index of requests, retry)."""

    source: int
    records: Sequence[Received]


class _Waiting:
    """A run of which `taken` records are taken; its first n are of `sizes[n]` bytes."""

    __slots__ = ("records", "sizes", "source", "taken")

    def __init__(self, source: int, records: Sequence[Received]) -> None:
        self.source = source
        self.records = records
        # A key may be as large as a value: uncounted, a thousand make no transaction that ends.
        each = [
            len(record.value or b"")
            + len(record.key or b"")
            + (header_bytes(record.headers) if record.headers else 0)
            for record in records
        ]
        self.sizes = list(accumulate(each, initial=0))
        self.taken = 0


class Queue:
    """The queue of one lane.

    Attributes:
        records: how many wait.
        bytes: of their keys, values and headers; a run is let go when its last record is taken.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self.records = self.bytes = 0

    def offer(self, source: int, records: Sequence[Received]) -> None:
        """Add fetched records at the end."""
        waiting = _Waiting(source, records)
        self._waiting.append(waiting)
        self.records += len(records)
        self.bytes += waiting.sizes[-1]

    def take(self) -> list[Run]:
        """Take the records at the head that fit one transaction: at least one, unless empty."""
        runs: list[Run] = []
        records, size = 0, 0
        while self._waiting and records < RECORDS_MAX:
            head = self._waiting[0]
            begin, sizes = head.taken, head.sizes
            fits = bisect_right(sizes, sizes[begin] + BATCH_BYTES_MAX - size, begin) - 1
            end = min(fits, begin + RECORDS_MAX - records)
            if end <= begin:
                if runs:
                    break
                end = begin + 1  # alone it is larger than the bound
            runs.append(Run(head.source, head.records[begin:end]))
            records += end - begin
            size += sizes[end] - sizes[begin]
            head.taken = end
            if end < len(head.records):
                break
            self._waiting.popleft()
        self.records -= records
        self.bytes -= size
        return runs
