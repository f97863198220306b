"""What a term begins from: the last committed snapshot, and the orders that stand."""

from __future__ import annotations

import logging

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from runtime.kafka.topics import partition_counts
from schemas.control import SNAPSHOT_KEY, Snapshot
from schemas.errors import FormatError
from schemas.message import decode
from schemas.topics import TopicNames
from streams.control.orders import OrderBook, fold_order, order_record

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
    place = TopicPartition(names.control, 0)
    end = (await offsets.end([place]))[place]
    begin = (await offsets.begin([place]))[place]
    for back in (*LOOK_BACK, end):
        start = max(begin, end - back)
        found = [
            record.value
            async for record in scan(connection, place, start, end)
            if record.key == SNAPSHOT_KEY and record.value is not None
        ]
        if found:
            return decode(Snapshot, found[-1])
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
    await partition_counts(connection, (names.orders,))  # asking for its offsets would not tell
    place = TopicPartition(names.orders, 0)
    end = (await offsets.end([place]))[place]
    begin = (await offsets.begin([place]))[place]
    book = OrderBook()
    async for record in scan(connection, place, begin, end):
        try:
            book = fold_order(book, order_record(record.offset, record.key, record.value))
        except FormatError as error:
            log.warning("record %s of %s ignored: %s", record.offset, names.orders, error)
    return book.model_copy(update={"read": end})
