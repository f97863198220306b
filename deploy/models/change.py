"""Writing a change of the registry: all of it or nothing, one operator at a time.

The models of a change and the head with the next revision are one transaction under one
transactional id, so that of two operators the one who wrote on what he had not seen is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.transactions import FencedProducer
from schemas.control import ModelRecord
from schemas.errors import Fenced, OutcomeUnknown, OverspillError
from schemas.message import encode
from schemas.registry import HEAD_KEY, RegistryHead
from schemas.topics import TopicNames
from streams.registry import Registry, read_registry

TRIES = 5
"""Commits whose end is not known are read back, and tried again if they are not there: a new
broker's first transactions are slow."""

LOOKS = 50
LOOK_S = 0.1
"""Between looks for what was committed; on any but a new broker the first one finds it."""
UNCONFIRMED = (
    "the broker did not confirm the change in time: `overspill models list` shows whether it was "
    "written"
)


class RegistryChanged(OverspillError):
    """Somebody else has changed the registry meanwhile."""


class Change(NamedTuple):
    """What is to be different: models put in place of those of their names, and names removed."""

    put: Sequence[ModelRecord] = ()
    drop: Sequence[str] = ()

    def after(self, models: Mapping[str, ModelRecord]) -> dict[str, ModelRecord]:
        """Return the models as they are after the change."""
        kept = {name: model for name, model in models.items() if name not in set(self.drop)}
        return kept | {model.name: model for model in self.put}

    def beyond(self, models: Mapping[str, ModelRecord]) -> Change:
        """Return the part of the change that these models do not show already."""
        return Change(
            tuple(
                model
                for model in self.put
                if model.name not in models or _said(models[model.name]) != _said(model)
            ),
            tuple(name for name in self.drop if name in models),
        )


class Author(NamedTuple):
    """Who changes the registry, and why."""

    who: str
    why: str = ""


async def write_change(
    connection: Connection,
    names: TopicNames,
    change: Change,
    author: Author,
    *,
    seen: int | None = None,
) -> Registry:
    """Write a change and return the registry after it; one that changes nothing is not written.

    Args:
        connection: how to reach the brokers.
        names: of the topics.
        change: what is to be different.
        author: goes into the head.
        seen: revision on which the change was made; None: whatever is there.

    Raises:
        RegistryChanged: it has another revision, or somebody else changes it now; nothing of this
            change is written.
        OverspillError: the broker does not confirm a commit; it says what to look at.
        BrokerUnreachable: no broker answers.
    """
    written: RegistryHead | None = None
    async with OffsetReader(connection) as offsets:
        for _ in range(TRIES):
            producer = FencedProducer(connection, f"{names.prefix}models")
            await producer.open()  # from here on nobody else's change can come between
            try:
                registry = await read_registry(connection, offsets, names)
                if written is not None and registry.head == written:
                    return registry
                todo = change.beyond(registry.models)
                refuse_unseen(registry, seen)
                if not (todo.put or todo.drop):
                    return registry
                written = _next_head(registry, author)
                await producer.commit(_outputs(names, todo, written), {})
            except Fenced:
                raise RegistryChanged(
                    "somebody else changes the registry at this moment, nothing was written: look "
                    "at `overspill models list`, then try again"
                ) from None
            except OutcomeUnknown:
                continue  # the next producer ends that transaction; then it can be read
            finally:
                await producer.close()
            return await _once_readable(connection, offsets, names, written)
    raise OverspillError(UNCONFIRMED)


async def _once_readable(
    connection: Connection, offsets: OffsetReader, names: TopicNames, written: RegistryHead
) -> Registry:
    """Return the registry once it shows a committed change.

    A commit is acknowledged before its markers are written, and readers see it only after.
    """
    for _ in range(LOOKS):
        registry = await read_registry(connection, offsets, names)
        if registry.revision >= written.revision:
            return registry
        await asyncio.sleep(LOOK_S)
    raise OverspillError(UNCONFIRMED)


def refuse_unseen(registry: Registry, seen: int | None) -> None:
    """Raise RegistryChanged unless the registry has the revision that was seen."""
    if seen is None or registry.revision == seen:
        return
    head = registry.head
    by = "" if head is None else f" (by {head.who}{': ' + head.why if head.why else ''})"
    raise RegistryChanged(
        f"the registry has revision {registry.revision}{by}, not {seen}; nothing was written: look "
        "at `overspill models list`, then try again"
    )


def _next_head(registry: Registry, author: Author) -> RegistryHead:
    return RegistryHead(
        revision=registry.revision + 1,
        who=author.who,
        why=author.why,
        at_ms=time.time_ns() // 1_000_000,
    )


def _outputs(names: TopicNames, change: Change, head: RegistryHead) -> Outputs:
    outputs = Outputs()
    for model in change.put:
        stamped = model.model_copy(update={"revision": head.revision})
        outputs.add(names.models, 0, model.name.encode(), encode(stamped))
    for name in change.drop:
        outputs.add(names.models, 0, name.encode(), None)
    outputs.add(names.models, 0, HEAD_KEY, encode(head))
    return outputs


def _said(model: ModelRecord) -> ModelRecord:
    """Return what is said of a model, whenever it was written."""
    return model.model_copy(update={"revision": 0})
