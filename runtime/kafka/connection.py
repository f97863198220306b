"""How to reach the brokers, and the one client type that talks to them.

Owns the settings every client of ours shares. Knows nothing of groups, transactions or roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, NodeNotReadyError

from schemas.errors import BrokerUnreachable

Connection = Mapping[str, Any]
"""Keyword arguments that every aiokafka client takes: bootstrap_servers, security_protocol, ..."""

METADATA_MAX_AGE_MS = 10_000
"""Changes that nobody asked about are noticed after this at most (aiokafka's default: 5 minutes);
what meets an unknown partition asks at once."""

REQUEST_TIMEOUT_MS = 5_000
"""One request. Shorter than a session (6 s), so that a dead broker is noticed before we are."""

TRANSPORT_ERRORS = (KafkaError, OSError, asyncio.TimeoutError)
"""What aiokafka's clients raise when a broker is away or changes roles."""

_lookup = AIOKafkaClient.coordinator_lookup


async def _coordinator_lookup(client: AIOKafkaClient, kind: Any, key: str) -> int:
    # A broker that its controller has given up for a while (it was starved) tells of no broker at
    # all. aiokafka asserts that there is one, in tasks of its own, and the process would end.
    if client.get_random_node() is None:
        raise NodeNotReadyError(f"no broker is known that could tell the coordinator of {key}")
    node: int = await _lookup(client, kind, key)
    return node


AIOKafkaClient.coordinator_lookup = _coordinator_lookup


async def connect(connection: Connection, within_s: float = 5.0) -> AIOKafkaClient:
    """Return a client that has the cluster's metadata.

    Raises:
        BrokerUnreachable: no bootstrap address answered within `within_s` seconds.
    """
    client = AIOKafkaClient(
        metadata_max_age_ms=METADATA_MAX_AGE_MS,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        **connection,
    )
    try:
        await asyncio.wait_for(client.bootstrap(), within_s)
    except TRANSPORT_ERRORS as error:
        await client.close()
        raise unreachable(connection) from error
    return client


def unreachable(connection: Connection) -> BrokerUnreachable:
    """Return the error that names the address nobody answered at."""
    address = connection.get("bootstrap_servers", "localhost")
    return BrokerUnreachable(
        f"no Kafka broker answers at {address}: start one (`overspill kafka`) or set "
        "--bootstrap-servers"
    )
