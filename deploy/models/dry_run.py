"""What a change of the registry would do to the work that is there, read from the topics."""

from __future__ import annotations

import time
from typing import NamedTuple

from deploy.models.change import Change
from deploy.models.impact import Effect, Fleet, effects
from deploy.models.pending import read_conversations, read_requests
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.topics import partition_counts
from runtime.settings import Settings
from schemas.outcomes import Mode
from streams.control.probe import Probe
from streams.control.record import last_snapshot
from streams.policy import policy
from streams.registry import Registry, read_registry
from streams.router.outlook import mode_at


class DryRun(NamedTuple):
    """What a change would do.

    Attributes:
        registry: as it is.
        change: what of the change the registry does not show already.
        requests, conversations: how many were looked at.
        effects: on those that it touches.
        blind: no fresh snapshot, so nothing is known of nodes and loads.
        left_out: records not read, by partition, at most.
    """

    registry: Registry
    change: Change
    requests: int
    conversations: int
    effects: list[Effect]
    blind: bool
    left_out: dict[str, int]

    def touched(self, kind: str, *, unroutable: bool) -> int:
        """Return how many pieces of a kind would move, or would become unroutable."""
        return sum(
            effect.piece.kind == kind and (effect.after is None) == unroutable
            for effect in self.effects
        )


async def dry_run(settings: Settings, connection: Connection, change: Change) -> DryRun:
    """Return what a change would do now.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: a topic is missing.
        FormatError: a snapshot or offset metadata that this release cannot read.
    """
    names = settings.topics
    pool_topics = {topic: pool.name for pool in settings.pools for topic in names.of_pool(pool)}
    widths = await partition_counts(connection, [names.requests, *pool_topics])
    now_ms = time.time_ns() // 1_000_000
    probe = Probe(connection, names, settings.pools)
    try:
        async with OffsetReader(connection) as offsets:
            registry = await read_registry(connection, offsets, names)
            snapshot = await last_snapshot(connection, offsets, names)
        _, reading = await probe.read()
    finally:
        await probe.close()
    if snapshot and mode_at((now_ms - snapshot.published_at_ms) / 1000) is Mode.BLIND:
        snapshot = None
    partitions = {pool.name: widths[names.pool(pool.name)] for pool in settings.pools}
    fleet = Fleet(settings.pools, partitions, snapshot)
    pending = await read_requests(connection, names, reading, pool_topics)
    bound = [
        piece
        for piece in await read_conversations(
            connection, names.decisions, widths[names.requests], now_ms
        )
        if fleet.holds(piece.place)
    ]
    return DryRun(
        registry=registry,
        change=change.beyond(registry.models),
        requests=len(pending.pieces),
        conversations=len(bound),
        effects=effects(
            [*pending.pieces, *bound],
            policy(settings.policy.name),
            fleet.view(registry.models),
            fleet.view(change.after(registry.models)),
            now_ms,
        ),
        blind=snapshot is None,
        left_out=pending.left_out,
    )
