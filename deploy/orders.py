"""Operators' orders, given from a command: written, then waited for until a snapshot obeys.

Knows no process: control reads what is written here, whenever it runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from deploy.client.reader import Reader
from deploy.client.sender import Sender
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from schemas.control import Snapshot
from schemas.errors import UsageError
from schemas.message import decode, encode
from schemas.orders import NODE, Order
from schemas.topics import TopicNames
from streams.control.orders import OrderBook
from streams.control.record import last_snapshot, standing_orders

IN_FORCE_WITHIN_S = 10.0
"""As long as a takeover takes. A control worker at work obeys within 0.2 s."""
SAY_AFTER_S = 1.0


class Known(NamedTuple):
    """What was published last, the orders that stand, and when both were read (epoch ms)."""

    snapshot: Snapshot | None
    book: OrderBook
    now_ms: int

    @property
    def age_s(self) -> float | None:
        """Return the snapshot's age; None if there never was one."""
        if self.snapshot is None:
            return None
        return max(0, self.now_ms - self.snapshot.published_at_ms) / 1000

    def check(self, about: str) -> None:
        """Raise UsageError if nobody could obey an order on this node or pool.

        That is a node that has not joined, or a pool that control is not configured with; but one
        on which an order stands can be ordered to work again.
        """
        kind, _, name = about.partition("/")
        if about in self.book.standing:
            return
        if kind + "/" == NODE:
            self._check_node(name)
        elif self.snapshot is not None and name not in self.snapshot.pools:
            raise UsageError(
                f"control has no pool {name!r}, only {', '.join(self.snapshot.pools)}: it runs "
                "with other settings than this command (--config)"
            )

    def _check_node(self, node: str) -> None:
        joined = [] if self.snapshot is None else [state.id for state in self.snapshot.nodes]
        if node not in joined:
            why = "" if self.snapshot else ": no control worker has ever published which have"
            raise UsageError(
                f"no node {node!r} has joined{why}; an order needs a node that has, "
                "`overspill nodes list` shows them"
            )


async def read_known(connection: Connection, names: TopicNames) -> Known:
    """Return what is known now.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: a topic is missing.
        FormatError: the snapshot is by a newer release.
    """
    async with OffsetReader(connection) as offsets:
        book, snapshot = await asyncio.gather(
            standing_orders(connection, offsets, names), last_snapshot(connection, offsets, names)
        )
    return Known(snapshot, book, time.time_ns() // 1_000_000)


async def give(
    connection: Connection, names: TopicNames, about: str, order: Order, say: Callable[[str], None]
) -> Snapshot | None:
    """Write the order and return the first snapshot that obeys it; None if none comes in 10 s.

    Without it the order stands all the same. `say` is told if there is something to wait for.

    Raises:
        BrokerUnreachable: no broker answers, or it did not take the order.
        TopicMismatch: a topic is missing.
    """
    async with (
        Reader(connection, (names.control,), from_end=True) as reader,
        Sender(connection, names.orders) as sender,
    ):
        written = await sender.send(about.encode(), encode(order))
        since_s = time.monotonic()
        told = False
        while (waited_s := time.monotonic() - since_s) < IN_FORCE_WITHIN_S:
            for record in await reader.some():
                if record.value is None:
                    continue
                snapshot = decode(Snapshot, record.value)
                if snapshot.orders_included > written.offset:
                    return snapshot
            if waited_s > SAY_AFTER_S and not told:
                say("Written; waiting for a control worker to obey")
                told = True
    return None
