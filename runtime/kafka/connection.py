"""How to reach the brokers, and the one client type that talks to them.

Owns the settings every client of ours shares, and mends two faults of aiokafka for all of them when
it is imported. Knows nothing of groups, transactions or roles.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason, create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError

from schemas.errors import BrokerRefuses, BrokerUnreachable

Connection = Mapping[str, Any]
"""Keyword arguments that every aiokafka client takes: bootstrap_servers, security_protocol, ..."""

METADATA_MAX_AGE_MS = 10_000
"""Changes that nobody asked about are noticed after this at most (aiokafka's default: 5 minutes);
what meets an unknown partition asks at once."""

REQUEST_TIMEOUT_MS = 5_000
"""One request. Shorter than a session (6 s), so that a dead broker is noticed before we are."""

TRANSPORT_ERRORS = (KafkaError, OSError, asyncio.TimeoutError)
"""What aiokafka's clients raise when a broker is away or changes roles."""

NOT_ALLOWED = (
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.TransactionalIdAuthorizationFailed,
)
"""What a broker with ACLs answers to those who lack one."""
_NOT_KNOWN = (
    kafka_errors.AuthenticationFailedError,
    kafka_errors.SaslAuthenticationFailed,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.IllegalSaslStateError,
)
_ASK_WITHIN_S = 3.0
"""One broker why it does not take us: it answers at once or is away."""

_lookup = AIOKafkaClient.coordinator_lookup


async def _coordinator_lookup(client: AIOKafkaClient, kind: Any, key: str) -> int:
    # A broker that its controller has given up for a while (it was starved) tells of no broker at
    # all. aiokafka asserts that there is one, in tasks of its own, and the process would end.
    if client.get_random_node() is None:
        raise NodeNotReadyError(f"no broker is known that could tell the coordinator of {key}")
    node: int = await _lookup(client, kind, key)
    return node


AIOKafkaClient.coordinator_lookup = _coordinator_lookup


def _or_broken(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that writes to a connection, which raises KafkaConnectionError if it is shut.

    aiokafka learns a little later than uvloop that a broker is gone. Meanwhile uvloop raises
    RuntimeError where asyncio would raise nothing, and whoever sends would end the process.
    """

    @functools.wraps(write)
    def written(connection: AIOKafkaConnection, *args: Any, **kwargs: Any) -> Any:
        try:
            return write(connection, *args, **kwargs)
        except RuntimeError as error:
            writer = connection._writer  # noqa: SLF001  what it has just written to
            if writer is None or not writer.is_closing():
                raise
            connection.close(reason=CloseReason.CONNECTION_BROKEN)
            place = f"{connection.host}:{connection.port}"
            raise KafkaConnectionError(f"Connection at {place} broken: {error}") from error

    return written


AIOKafkaConnection.send = _or_broken(AIOKafkaConnection.send)
AIOKafkaConnection._send_sasl_token = _or_broken(AIOKafkaConnection._send_sasl_token)  # noqa: SLF001  the other one that writes


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
        hosts = client.hosts
        await client.close()
        raise await _why(connection, hosts) from error
    return client


def unreachable(connection: Connection, error: BaseException | None = None) -> BrokerUnreachable:
    """Return the error for what a client met: nobody answered, or the broker refuses us."""
    address = connection.get("bootstrap_servers", "localhost")
    if isinstance(error, NOT_ALLOWED):
        return BrokerRefuses(
            f"the broker at {address} does not allow this: {error}",
            "`overspill topics acl` prints what each role needs",
        )
    return BrokerUnreachable(
        f"no Kafka broker answers at {address}",
        "start everything on this machine (`overspill up`) or set --bootstrap-servers",
    )


async def _why(connection: Connection, hosts: Any) -> BrokerUnreachable:
    """Ask the brokers one by one why they did not take us: the client tells it nobody."""
    if "security_protocol" in connection:
        same = {name: value for name, value in connection.items() if name != "bootstrap_servers"}
        for host, port, _ in hosts:
            if refusal := await _refusal(host, port, same):
                return refusal
    return unreachable(connection)


async def _refusal(host: str, port: int, connection: Connection) -> BrokerRefuses | None:
    """Return how this broker refuses us; None if it is not there, or does not."""
    refuses = f"the broker at {host}:{port} refuses us"
    try:
        # Done when it has answered a first request and, with SASL, knows us.
        opened = await asyncio.wait_for(create_conn(host, port, **connection), _ASK_WITHIN_S)
    except _NOT_KNOWN:
        return BrokerRefuses(
            refuses, "check kafka.username, the password, and kafka.sasl_mechanism"
        )
    except ssl.SSLCertVerificationError as error:
        untrusted = f"{refuses}: its certificate is not trusted ({error.verify_message})"
        return BrokerRefuses(untrusted, "check kafka.ca_file")
    except ssl.SSLError as error:
        reason = error.reason or type(error).__name__
        return BrokerRefuses(
            f"{refuses}: no TLS with it ({reason})", "check the port and kafka.certificate_file"
        )
    except KafkaError:
        return BrokerRefuses(
            f"{refuses}: it ends the connection",
            "if it asks for certificates, check kafka.certificate_file",
        )
    except (OSError, asyncio.TimeoutError):
        return None
    opened.close()
    return None
