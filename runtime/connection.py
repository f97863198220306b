"""From settings to what every Kafka client of ours is given."""

from __future__ import annotations

from runtime.kafka.connection import Connection
from runtime.settings import Settings


def connection_of(settings: Settings) -> Connection:
    """Return the keyword arguments of every aiokafka client."""
    return {"bootstrap_servers": settings.kafka.bootstrap_servers}
