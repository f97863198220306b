"""What a fresh broker needs before roles start: the topics, and the registry's records."""

from __future__ import annotations

from deploy.local.fleet import registry
from deploy.models.change import Author, Change, write_change
from runtime.connection import connection_of
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import check_topics, create_topics, refuse_oversize
from runtime.settings import Settings
from schemas.topics import EMBEDDED_PARTITIONS, catalogue
from streams.registry import read_registry


async def provision(settings: Settings) -> None:
    """Create what is missing, compare what is there, and register the local models.

    Raises:
        TopicMismatch: a topic of an earlier run is not as declared.
        BrokerUnreachable: the broker does not answer.
    """
    connection = connection_of(settings)
    refuse_oversize(settings.pools, EMBEDDED_PARTITIONS)
    topics = catalogue(settings.topics, settings.pools, EMBEDDED_PARTITIONS)
    await create_topics(connection, topics)
    await check_topics(connection, topics)
    async with OffsetReader(connection) as offsets:
        known = (await read_registry(connection, offsets, settings.topics)).models
    # What an operator has said of them since is left as it is.
    if missing := [model for model in registry() if model.name not in known]:
        author = Author("overspill", "models of the local stack")
        await write_change(connection, settings.topics, Change(missing), author)
