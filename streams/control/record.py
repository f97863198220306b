"""What stands on topics: the last snapshot, the orders, and the last row of the lag table."""

from __future__ import annotations

import logging

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan, scan_topic
from runtime.kafka.topics import partition_counts
from schemas.control import LAG_KEY, SNAPSHOT_KEY, Snapshot
from schemas.errors import FormatError, TopicMismatch
from schemas.message import decode
from schemas.topics import TopicNames
from streams.control.orders import OrderBook, fold_order, order_record
from streams.control.rates import LagRow
from streams.control.tables import changelog

log = logging.getLogger(__name__)

LOOK_BACK = (20, 2_000)
"""Offsets before the end to begin at, in turn, then the whole topic: a snapshot and its marker take
two, aborted ones lie between."""


async def last_snapshot(
    connection: Connection, offsets: OffsetReader, names: TopicNames
) -> Snapshot | None:
    """Return the last committed snapshot, None if there never was one.

    Raises:
        FormatError: it is by a newer release.
        BrokerUnreachable: no answer in time.
    """
    value = await _last_value(connection, offsets, names.control, SNAPSHOT_KEY)
    return None if value is None else decode(Snapshot, value)


async def last_lag_row(
    connection: Connection, offsets: OffsetReader, names: TopicNames
) -> LagRow | None:
    """Return the lag table's row from the table's changelog, None if there never was one.

    Raises:
        FormatError: it is by a newer release.
        BrokerUnreachable: no answer in time.
    """
    topic = changelog(names.prefix, "lag")
    try:
        await partition_counts(connection, [topic])
    except TopicMismatch:
        return None  # no control worker has ever run
    value = await _last_value(connection, offsets, topic, LAG_KEY)
    return None if value is None else decode(LagRow, value)


async def _last_value(
    connection: Connection, offsets: OffsetReader, topic: str, key: bytes
) -> bytes | None:
    place = TopicPartition(topic, 0)
    end = (await offsets.end([place]))[place]
    begin = (await offsets.begin([place]))[place]
    for back in (*LOOK_BACK, end):
        start = max(begin, end - back)
        found: bytes | None = None
        async for record in scan(connection, place, start, end):
            if record.key == key and record.value is not None:
                found = record.value
        if found is not None:
            return found
        if start == begin:
            break
    return None


async def standing_orders(
    connection: Connection, offsets: OffsetReader, names: TopicNames
) -> OrderBook:
    """Return the orders that stand by what `orders` holds now; what is no order is left out.

    Raises:
        BrokerUnreachable: no answer in time.
        TopicMismatch: the topic does not exist.
    """
    book = OrderBook()
    async for record in scan_topic(connection, offsets, names.orders):
        try:
            book = fold_order(book, order_record(record.offset, record.key, record.value))
        except FormatError as error:
            log.warning("record %s of %s ignored: %s", record.offset, names.orders, error)
    return book
