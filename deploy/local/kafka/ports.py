"""Loopback ports: which are free, and which one the broker gets.

Must not know the broker: a port is only a number that nobody listens on right now.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

LOOPBACK = "127.0.0.1"
KAFKA_PORT = 9092
"""Kafka's own default: tools that are told nothing look there."""


def is_free(port: int) -> bool:
    """Tell whether nobody listens on this loopback port."""
    with socket.socket() as probe:
        # As the broker does: connections that were closed a moment ago do not make a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a loopback port that is free now; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def choose_port(wanted: int | None, progress: Callable[[str], None]) -> int:
    """Return the wanted port, or without a wish 9092 if it is free, else any free one.

    Raises:
        LocalKafkaError: the wanted port is taken.
    """
    if wanted is None:
        if is_free(KAFKA_PORT):
            return KAFKA_PORT
        port = free_port()
        progress(f"Port {KAFKA_PORT} is taken; Kafka will listen on {port}")
        return port
    if not is_free(wanted):
        raise LocalKafkaError(
            f"port {wanted} is taken by another process: stop it, choose another port with "
            "--kafka-port, or leave the flag away to get a free one"
        )
    return wanted
