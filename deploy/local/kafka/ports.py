"""Which loopback port the broker gets. Must not know the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.ports import free_port, is_free
from schemas.errors import LocalKafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

KAFKA_PORT = 9092
"""Kafka's own default: tools that are told nothing look there."""


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
