"""What a process had in hand when it died: open transactions, work begun.

To be asked before anybody takes over: then the broker still knows.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from aiokafka.structs import TopicPartition
from confluent_kafka.admin import AdminClient

from runtime.kafka.offsets import OffsetReader
from runtime.kafka.transactions import transactional_id
from schemas.metadata import decode_finished
from schemas.topics import executor_group, router_group
from tests.chaos.transactions import open_transactions
from tests.kafka.system import System

DESCRIBE_S = 10.0
QUIET = 4
"""librdkafka's warnings and worse."""


class Held(NamedTuple):
    """What a process has in hand.

    Attributes:
        transactions: of its own, open at the broker.
        begun: pool records that it had begun and not finished by its last commit. A slot is busy
            then: what is begun waits only where all slots are taken.
    """

    transactions: int
    begun: int

    @property
    def anything(self) -> bool:
        """Return whether a death now hits an open transaction or a busy slot."""
        return self.transactions > 0 or self.begun > 0


async def held_by(system: System, name: str) -> Held:
    """Return what the process of that name, dead or stopped a moment ago, has in hand."""
    prefix, names, pool = system.settings.prefix, system.names, name.rpartition("-")[0]
    if name == "control":
        open_now = await open_transactions(system.connection)
        return Held(len(open_now & {f"{prefix}control"}), 0)
    if pool == "router":
        group, leader = router_group(prefix), names.requests
    else:
        group, leader = executor_group(prefix, pool), names.pool(pool)
    # A static member stays in its group until its session ends, dead or not.
    owned = await asyncio.to_thread(_owned, system, group, name)
    ids = {transactional_id(group, leader, tp.partition) for tp in owned if tp.topic == leader}
    open_now = await open_transactions(system.connection)
    begun = 0 if pool == "router" else await _begun(system, group, owned)
    return Held(len(open_now & ids), begun)


def _owned(system: System, group: str, instance_id: str) -> set[TopicPartition]:
    admin = AdminClient(
        {"bootstrap.servers": system.connection["bootstrap_servers"], "log_level": QUIET}
    )
    described = admin.describe_consumer_groups([group])[group].result(DESCRIBE_S)
    return {
        TopicPartition(tp.topic, tp.partition)
        for member in described.members
        if member.group_instance_id == instance_id
        for tp in member.assignment.topic_partitions
    }


async def _begun(system: System, group: str, owned: set[TopicPartition]) -> int:
    async with OffsetReader(system.connection) as offsets:
        committed = await offsets.all_committed(group)
    ledgers = [at.metadata for tp, at in committed.items() if at and at.metadata and tp in owned]
    return sum(len(decode_finished(ledger).unfinished) for ledger in ledgers)
