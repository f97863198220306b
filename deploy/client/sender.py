"""Send records to `requests` and learn the origin of each.

Knows nothing of what a request is: malformed ones are sent on purpose by tests and the demo.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from typing_extensions import Self

from runtime.kafka.connection import Connection, connect, unreachable
from schemas.headers import Origin

LINGER_MS = 5
"""Records sent within this time share a batch; less than anyone notices."""


class Sender:
    """A producer to one topic; an asynchronous context manager."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        """Connect; raise BrokerUnreachable."""
        client = await connect(self._connection)  # fails within seconds; a producer tries for ever
        await client.close()
        self._producer = AIOKafkaProducer(
            **self._connection, acks="all", enable_idempotence=True, linger_ms=LINGER_MS
        )
        await self._producer.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._producer is not None:
            await self._producer.stop()

    async def send(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Origin:
        """Send one record and return its origin once the broker has it.

        Raises:
            BrokerUnreachable: the broker did not take it.
        """
        assert self._producer is not None  # noqa: S101  entered
        wire: list[Any] = list(headers)
        try:
            sent = await self._producer.send_and_wait(
                self._topic, value, key=key, headers=wire or None
            )
        except KafkaError as error:
            raise unreachable(self._connection, error) from error
        return Origin(sent.topic, sent.partition, sent.offset)
