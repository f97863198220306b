"""The model registry as its topic tells it: folded record by record, or read whole.

Routers follow it (`router.feed`), `status` and `overspill models` read it; all fold it here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan_topic
from schemas.control import ModelRecord
from schemas.errors import FormatError
from schemas.message import decode
from schemas.registry import HEAD_KEY, RegistryHead
from schemas.topics import TopicNames

log = logging.getLogger(__name__)


class Registry(NamedTuple):
    """What is registered.

    Attributes:
        models: by name.
        head: the last change; None before the first.
    """

    models: Mapping[str, ModelRecord] = MappingProxyType({})
    head: RegistryHead | None = None

    @property
    def revision(self) -> int:
        """Return the revision; 0 before the first change."""
        return 0 if self.head is None else self.head.revision


class RegistryFold:
    """Takes the records of `models` in order, from the first one."""

    def __init__(self) -> None:
        self._models: dict[str, ModelRecord] = {}
        self._head: RegistryHead | None = None

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Enter one record; one that does not decode is logged and changes nothing."""
        name = (key or b"").decode(errors="replace")
        try:
            if key == HEAD_KEY:
                self._head = None if value is None else decode(RegistryHead, value)
            elif value is None:
                self._models.pop(name, None)
            else:
                self._models[name] = decode(ModelRecord, value)
        except FormatError as error:
            log.warning("model %r at offset %s ignored: %s", name, offset, error)

    def registry(self) -> Registry:
        """Return what has been taken so far."""
        return Registry(dict(self._models), self._head)


async def read_registry(
    connection: Connection, offsets: OffsetReader, names: TopicNames
) -> Registry:
    """Return the registry as it is committed now; raise BrokerUnreachable or TopicMismatch."""
    fold = RegistryFold()
    async for record in scan_topic(connection, offsets, names.models):
        fold.take(record.offset, record.key, record.value)
    return fold.registry()
