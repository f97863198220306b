"""Where decisions are read from: the topic, or a file that was made of it.

A file has a record's value a line, as JSON, in the order that a replay needs; gzipped where its
name ends in .gz. The topic is read up to its end as it was at the beginning.
"""

from __future__ import annotations

import gzip
import heapq
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import groupless_consumer
from runtime.kafka.started import started
from runtime.kafka.topics import partition_counts
from schemas.decisions import DecisionsRecord, decode_decisions
from schemas.errors import FormatError, UsageError

AHEAD = 200
"""Records read at once from a partition whose turn it is: some MiB for all partitions together."""
POLL_MS = 200


class Stated(NamedTuple):
    """A decisions record and its bytes."""

    record: DecisionsRecord
    raw: bytes


async def read_topic(connection: Connection, topic: str) -> AsyncGenerator[Stated, None]:
    """Yield all committed decisions, those of each router in its own order.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: there is no such topic.
        FormatError: a record is none.
    """
    widths = await partition_counts(connection, [topic])
    places = [TopicPartition(topic, number) for number in range(widths[topic])]
    async with OffsetReader(connection) as offsets:
        begins, ends = await offsets.begin(places), await offsets.end(places)
    consumer = groupless_consumer(connection, POLL_MS)
    async with started(consumer):
        consumer.assign(places)
        for place in places:
            consumer.seek(place, begins[place])
        queues = [_Queue(consumer, place, ends[place]) for place in places]
        heads = [(await queue.next(), number) for number, queue in enumerate(queues)]
        in_order = [(_order(head), number, head) for head, number in heads if head is not None]
        heapq.heapify(in_order)
        while in_order:
            _, number, head = heapq.heappop(in_order)
            yield head
            following = await queues[number].next()
            if following is not None:
                heapq.heappush(in_order, (_order(following), number, following))


def read_dump(file: Path) -> Iterator[Stated]:
    """Yield the decisions that a file holds; raise UsageError, with the line that is none."""
    try:
        with open_dump(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield Stated(_decoded(line, file, number), line)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise UsageError(f"{file} is not whole: {error}") from None


def _decoded(line: bytes, file: Path, number: int) -> DecisionsRecord:
    try:
        return decode_decisions(line)
    except FormatError as error:
        raise UsageError(f"{file}, line {number}: {error}") from None


def open_dump(file: Path, mode: Literal["rb", "wb"]) -> IO[bytes]:
    """Return the file, opened in a binary mode."""
    if file.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(file, mode))
    return file.open(mode)


class _Queue:
    """What was read of one partition and not asked for yet."""

    def __init__(
        self, consumer: AIOKafkaConsumer[bytes | None, bytes | None], at: TopicPartition, end: int
    ) -> None:
        self._consumer, self._at, self._end = consumer, at, end
        self._values: deque[bytes] = deque()

    async def next(self) -> Stated | None:
        """Return the next record, None at the end."""
        while not self._values:
            # Markers leave no record: only the position tells that the end is reached.
            if await self._consumer.position(self._at) >= self._end:
                return None
            found = await self._consumer.getmany(self._at, timeout_ms=POLL_MS, max_records=AHEAD)
            self._values.extend(
                record.value or b""
                for record in found.get(self._at, ())
                if record.offset < self._end
            )
        raw = self._values.popleft()
        return Stated(decode_decisions(raw), raw)


def _order(stated: Stated) -> tuple[int, int]:
    """Return what the decisions of one router rise in, wherever they stand."""
    return stated.record.now_ms, stated.record.sequence
