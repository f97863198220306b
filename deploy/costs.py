"""What requests have cost, added up from their results: the ledger.

A result tells the cost of its last attempt, and of earlier ones that nodes handed back after a run;
so all results together tell what all runs have cost that ended on their node. What a result does
not tell: a run that was cut off, by a crash or a rebalance, and began anew elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import groupless_consumer, scan
from runtime.kafka.started import started
from runtime.kafka.topics import partition_counts
from schemas import canary
from schemas.errors import FormatError
from schemas.message import decode
from schemas.result import Result

DIMENSIONS = ("day", "tenant", "model", "pool")
"""What costs can be added up by; in this order."""
TELL_EVERY = 10_000
NONE = ""
"""The tenant of a request that names none, the pool of one that never ran."""

Line = tuple[str, ...]
"""Values of the dimensions asked for."""


@dataclass
class Spent:
    """Requests that ended, and the cost of their runs in gpu slot-seconds."""

    requests: int = 0
    cost: float = 0.0


class Ledger:
    """Adds up results by some dimensions.

    Attributes:
        lines: what was found so far.
    """

    def __init__(self, by: tuple[str, ...]) -> None:
        self.lines: dict[Line, Spent] = {}
        self._by = by

    @property
    def total(self) -> Spent:
        """Return the sum of all lines."""
        spent = self.lines.values()
        return Spent(sum(each.requests for each in spent), sum(each.cost for each in spent))

    def take(self, result: Result, ended_ms: int) -> None:
        """Enter a result that was written at this time, epoch ms; canaries are nobody's cost."""
        if result.tenant == canary.TENANT:
            return
        day = datetime.fromtimestamp(ended_ms / 1000, timezone.utc).date().isoformat()
        for number, (pool, cost) in enumerate(_costs(result)):
            whole = {
                "day": day,
                "tenant": result.tenant or NONE,
                "model": result.model_name,
                "pool": pool,
            }
            line = self.lines.setdefault(tuple(whole[name] for name in self._by), Spent())
            line.requests += number == 0
            line.cost += cost


def _costs(result: Result) -> Iterator[tuple[str, float]]:
    """Yield where the request ended with the cost there, then earlier attempts that cost."""
    yield NONE if result.served_by is None else result.served_by.pool, result.cost
    yield from ((pool, cost) for pool, cost in result.earlier_cost.items() if cost)


async def read_costs(
    connection: Connection,
    topic: str,
    by: tuple[str, ...],
    since_ms: int | None,
    progress: Callable[[str], None],
) -> Ledger:
    """Return the ledger of what `results` holds; raise BrokerUnreachable or TopicMismatch."""
    widths = await partition_counts(connection, [topic])
    places = [TopicPartition(topic, number) for number in range(widths[topic])]
    async with OffsetReader(connection) as offsets:
        begins, ends = await offsets.begin(places), await offsets.end(places)
    if since_ms is not None:
        begins = await _from_then(connection, places, since_ms, ends)
    ledger, read = Ledger(by), 0
    for place in places:
        async for record in scan(connection, place, begins[place], ends[place]):
            try:
                result = decode(Result, record.value or b"")
            except FormatError:
                continue  # written by somebody else
            if since_ms is None or record.timestamp >= since_ms:
                ledger.take(result, record.timestamp)
            read += 1
            if read % TELL_EVERY == 0:
                progress(f"{read:,} results read")
    return ledger


async def _from_then(
    connection: Connection,
    places: list[TopicPartition],
    since_ms: int,
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the first offset of each partition that was written then or later."""
    consumer = groupless_consumer(connection)
    async with started(consumer):
        found = await consumer.offsets_for_times(dict.fromkeys(places, since_ms))
    return {place: ends[place] if at is None else at.offset for place, at in found.items()}
