"""The order book: which orders stand, folded from the records of `orders`.

Pure. The topic is the truth, the book follows it: a term begins with a book read from the topic's
beginning, so a lost changelog or a doubtful offset costs no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from schemas.errors import FormatError
from schemas.message import Message
from schemas.orders import Order, read_order
from streams.policy.threshold import CEILING, FLOOR


class OrderRecord(NamedTuple):
    """One record of `orders`: what it is about, and the order that stands there now, if any."""

    offset: int
    about: str
    order: Order | None


class OrderBook(Message):
    """The one row of the order table.

    Attributes:
        read: offset of `orders` before which every record is in it.
        standing: by what they are about (`node/gpu-1`); those that were ended are not.
    """

    version: int = 1
    read: int = 0
    standing: Mapping[str, Order] = Field(default_factory=dict)


def order_record(offset: int, key: bytes | None, value: bytes | None) -> OrderRecord:
    """Return the record that these bytes are; raise FormatError if they are no order."""
    about, order = read_order(key, value)
    held = None if order is None else order.threshold
    if held is not None and not FLOOR <= held <= CEILING:
        raise FormatError(f"the threshold goes from {FLOOR} to {CEILING}: {held} is no order")
    return OrderRecord(offset, about, order)


def fold_order(book: OrderBook, record: OrderRecord) -> OrderBook:
    """Return the book with one more record; one that is in it changes nothing."""
    if record.offset < book.read:
        return book
    standing = {about: order for about, order in book.standing.items() if about != record.about}
    if record.order is not None:
        standing[record.about] = record.order
    return OrderBook(read=record.offset + 1, standing=standing)
