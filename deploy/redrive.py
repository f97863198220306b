"""Sending dead letters in again: each once, and from then on the dead letter counts no more.

The record for `retry` and the marker in `dead-letter` that supersedes the letter are one
transaction of one fenced id, so that neither exists without the other, a second redrive at the same
time is put out, and one that was cut off goes on where it was: what is marked is skipped. It knows
nothing of why a letter died; the router judges it anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from deploy.client.terminal import Record, Terminal, read_terminal
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.scan import scan
from runtime.kafka.topics import partition_counts
from runtime.kafka.transactions import FencedProducer
from schemas.errors import Fenced, FormatError, OutcomeUnknown, OverspillError
from schemas.headers import (
    ORIGIN,
    REDRIVE,
    REQUEST_ID,
    SUPERSEDES,
    VERSION_HEADER,
    Origin,
    Passage,
    encode_passage,
    redrive_of,
    split_headers,
)
from schemas.topics import TopicNames

AT_ONCE = 500
"""Letters in one transaction: enough that its own cost does not count."""
BYTES_AT_ONCE = 1024 * 1024
"""Of keys and values in one transaction; a larger letter gets one of its own."""

GENERATIONS_MAX = 10
"""Redrives of one request: what dies of the same cause for ever is not sent round for ever, as by a
command that somebody repeats by the clock."""

NO_BYTES = "it came without bytes, or they were not kept: send the request again from where it came"
NO_PLACE = "`retry` has no partition of its number: run `overspill topics check`"
TOO_OFTEN = (
    f"it has died again after {GENERATIONS_MAX} redrives: mend its cause and send the request anew"
)
OTHER_ORIGIN = "it is of another topic than `requests`"


class Chosen(NamedTuple):
    """Which dead letters to send in again; what is None or empty leaves out nothing.

    Attributes:
        categories: of their errors.
        since_ms, until_ms: when they died, epoch ms; from, and before.
        limit: how many at most, the oldest of each partition first.
    """

    categories: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int | None = None

    def takes(self, letter: Terminal) -> bool:
        """Return whether the letter is one of those."""
        return (
            (not self.categories or letter.category in self.categories)
            and (self.since_ms is None or letter.timestamp_ms >= self.since_ms)
            and (self.until_ms is None or letter.timestamp_ms < self.until_ms)
        )


@dataclass
class Redriven:
    """What was done, or would be.

    Attributes:
        sent: letters by category.
        before: letters that an earlier redrive had superseded.
        kept: letters that cannot be sent, by reason.
    """

    sent: Counter[str] = field(default_factory=Counter)
    before: int = 0
    kept: Counter[str] = field(default_factory=Counter)


class Redrive:
    """Sends dead letters of one system in again."""

    def __init__(self, connection: Connection, names: TopicNames) -> None:
        self._connection = connection
        self._names = names

    async def run(
        self, chosen: Chosen, *, dry_run: bool, progress: Callable[[str], None]
    ) -> Redriven:
        """Send what is chosen, a transaction at a time, and return what was done.

        Raises:
            TopicMismatch: a topic is missing.
            BrokerUnreachable: no broker answers.
            OverspillError: another redrive has begun, or a commit without a sure end; what was
                committed stays, and running it again goes on from there.
        """
        widths = await partition_counts(
            self._connection, [self._names.dead_letter, self._names.retry]
        )
        producer = FencedProducer(self._connection, f"{self._names.prefix}redrive")
        if not dry_run:
            await producer.open()  # before reading: from here on nobody else marks a letter
        try:
            return await self._run(chosen, widths, None if dry_run else producer, progress)
        except Fenced as error:
            raise OverspillError("another redrive has begun: this one stops") from error
        except OutcomeUnknown as error:
            raise OverspillError(
                f"{error}: run it again, it goes on with what is not superseded"
            ) from error
        finally:
            await producer.close()

    async def _run(
        self,
        chosen: Chosen,
        widths: Mapping[str, int],
        producer: FencedProducer | None,
        progress: Callable[[str], None],
    ) -> Redriven:
        done = Redriven()
        places = [
            TopicPartition(self._names.dead_letter, number)
            for number in range(widths[self._names.dead_letter])
        ]
        async with OffsetReader(self._connection) as offsets:
            begins, ends = await offsets.begin(places), await offsets.end(places)
        for place in places:
            if chosen.limit is not None and done.sent.total() >= chosen.limit:
                break
            span = self._connection, place, begins[place], ends[place]
            superseded = {
                letter.supersedes
                async for record in scan(*span)
                if (letter := self._letter(record)) and letter.supersedes
            }
            letters: list[Record] = []
            size = 0
            async with aclosing(scan(*span)) as records:
                async for record in records:
                    category = self._to_send(record, superseded, chosen, widths, done)
                    if category is None:
                        continue
                    weight = len(record.value or b"") + len(record.key or b"")
                    if letters and (len(letters) == AT_ONCE or size + weight > BYTES_AT_ONCE):
                        await self._send(producer, letters, progress, done)
                        letters, size = [], 0
                    letters.append(record)
                    size += weight
                    done.sent[category] += 1
                    if done.sent.total() == chosen.limit:
                        break
            await self._send(producer, letters, progress, done)
        return done

    def _to_send(
        self,
        record: Record,
        superseded: Collection[Origin],
        chosen: Chosen,
        widths: Mapping[str, int],
        done: Redriven,
    ) -> str | None:
        """Return the category of a letter that is to be sent; else None, and note in `done` why."""
        letter = self._letter(record)
        if letter is None or letter.supersedes or not chosen.takes(letter):
            return None
        if letter.place in superseded:
            done.before += 1
            return None
        objection = self._objection(record, letter, widths[self._names.retry])
        if objection:
            done.kept[objection] += 1
            return None
        return letter.category

    def _letter(self, record: Record) -> Terminal | None:
        try:
            return read_terminal(record, self._names)
        except FormatError:
            return None  # written by somebody else

    def _objection(self, record: Record, letter: Terminal, retry_width: int) -> str:
        if record.value is None:
            return NO_BYTES
        if letter.origin.topic != self._names.requests:
            return OTHER_ORIGIN
        try:
            if redrive_of(split_headers(record.headers)[1]) >= GENERATIONS_MAX:
                return TOO_OFTEN
        except FormatError as error:
            return str(error)
        return "" if letter.origin.partition < retry_width else NO_PLACE

    async def _send(
        self,
        producer: FencedProducer | None,
        letters: Sequence[Record],
        progress: Callable[[str], None],
        done: Redriven,
    ) -> None:
        if not letters:
            return
        if producer is not None:
            now_ms = time.time_ns() // 1_000_000
            outputs = Outputs()
            for letter in letters:
                for topic, partition, value, headers in redriven(letter, self._names, now_ms):
                    outputs.add(topic, partition, letter.key, value, headers, now_ms)
            await producer.commit(outputs, {})
        progress(f"{done.sent.total()} dead letters {'sent' if producer else 'would be sent'}")


def redriven(
    letter: Record, names: TopicNames, now_ms: int
) -> Iterator[tuple[str, int, bytes | None, list[tuple[str, bytes | None]]]]:
    """Yield the two records of a redrive: topic, partition, value and headers; the key stays.

    The request arrives anew: its first attempt, its time to live from now on.
    """
    theirs, ours = split_headers(letter.headers)
    origin = Origin.decode(ours[ORIGIN])
    generation = redrive_of(ours) + 1
    request_id = ours.get(REQUEST_ID, b"unknown").decode("ascii", "replace")
    passage = Passage(request_id, origin, now_ms, redrive=generation)
    yield names.retry, origin.partition, letter.value, [*theirs, *encode_passage(passage)]
    place = Origin(letter.topic, letter.partition, letter.offset)
    marker: list[tuple[str, bytes | None]] = [
        (SUPERSEDES, place.encode()),
        (ORIGIN, origin.encode()),
        (REDRIVE, b"%d" % generation),
        VERSION_HEADER,
    ]
    yield names.dead_letter, letter.partition, None, marker
