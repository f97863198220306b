"""Which transactions are open at the broker: whether a kill has hit one.

Speaks ListTransactions itself, since neither client library has it.
"""

from __future__ import annotations

import time
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from runtime.kafka.connection import TRANSPORT_ERRORS, Connection, connect
from schemas.errors import BrokerUnreachable

_LIST_TRANSACTIONS = 66
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


class _Answer(Response):
    API_KEY = _LIST_TRANSACTIONS
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_state_filters", CompactArray(CompactString("utf-8"))),
        (
            "states",
            CompactArray(
                ("transactional_id", CompactString("utf-8")),
                ("producer_id", Int64),
                ("state", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Question(RequestStruct):
    FLEXIBLE_VERSION = True
    API_KEY = _LIST_TRANSACTIONS
    API_VERSION = 0
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("state_filters", CompactArray(CompactString("utf-8"))),
        ("producer_id_filters", CompactArray(Int64)),
        ("tags", TaggedFields),
    )


class _ListTransactions(Request[_Question]):
    API_KEY = _LIST_TRANSACTIONS

    def build(self, request_struct_class: type[_Question]) -> _Question:
        return request_struct_class(list(_OPEN), [], {})


ANSWERED_WITHIN_S = 30.0
"""A broker on a machine that is short of processors takes seconds to take a connection."""


async def open_transactions(connection: Connection) -> frozenset[str]:
    """Return the transactional ids that have a transaction open now; of one broker."""
    give_up = time.monotonic() + ANSWERED_WITHIN_S
    while True:
        try:
            return await _open_now(connection)
        except (*TRANSPORT_ERRORS, BrokerUnreachable):  # starved by all that is under test
            if time.monotonic() > give_up:
                raise


async def _open_now(connection: Connection) -> frozenset[str]:
    client = await connect(connection)
    try:
        (broker, *others) = client.cluster.brokers()
        assert not others, "each broker would have to be asked for those it coordinates"
        answer: Any = await client.send(broker.nodeId, _ListTransactions())
        assert answer.error_code == 0, answer
        return frozenset(state[0] for state in answer.states)
    finally:
        await client.close()
