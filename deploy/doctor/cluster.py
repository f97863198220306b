"""The brokers: do they answer, are they new enough, are topics and rights as they must be?

Asks and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping

from deploy.client.reader import Reader
from deploy.client.terminal import Record
from deploy.doctor.finding import Finding, bad, failed, well
from deploy.doctor.rights import judge_rights
from runtime.connection import connection_of
from runtime.kafka.authorized import allowed, known_requests
from runtime.kafka.connection import TRANSPORT_ERRORS, connect
from runtime.kafka.topics import check_topics, partition_counts
from runtime.settings import Settings
from schemas.control import NodeReport, Snapshot
from schemas.errors import BrokerUnreachable, FormatError, OverspillError
from schemas.message import decode
from schemas.pools import Pool
from schemas.topics import catalogue

TXN_OFFSET_COMMIT, GROUPS_IN_TRANSACTIONS = 28, 3
"""The request that fences a group's offsets, and its version of Kafka 2.5: older brokers let two
owners of a partition commit."""
LISTEN_S = 2.0
"""Nodes and control speak twice a second."""
SNAPSHOTS_BACK = 20


async def look_at_brokers(
    settings: Settings, role: str | None, pools: tuple[Pool, ...]
) -> AsyncIterator[Finding]:
    """Yield what is found of brokers, topics, and the rights of a role; `pools`: of an executor."""
    connection, names = connection_of(settings), settings.topics
    where = settings.kafka.bootstrap_servers
    try:
        client = await connect(connection)
    except BrokerUnreachable as error:
        yield failed("broker", error)
        return
    topics = [topic.name for topic in catalogue(names, settings.pools)]
    try:
        newest, may = await known_requests(client), await allowed(client, topics)
    except (*TRANSPORT_ERRORS, NotImplementedError) as error:
        yield bad("broker", f"{where} answers, and then fails: {error!r}", "see the broker's log")
        return
    finally:
        await client.close()
    yield _new_enough(where, newest)
    try:
        width = (await partition_counts(connection, [names.requests]))[names.requests]
        await check_topics(connection, catalogue(names, settings.pools, width))
    except OverspillError as error:
        yield failed("topics", error)
    except TRANSPORT_ERRORS as error:
        yield bad("topics", f"{where} does not tell of them: {error!r}", "see the broker's log")
    else:
        yield well("topics", f"all {len(topics)} as declared, {width} partitions each")
    if role is not None:
        for finding in judge_rights(role, names, pools, may):
            yield finding


async def listen(settings: Settings) -> tuple[Snapshot | None, Mapping[str, float]]:
    """Return the last snapshot, and how old, s, what nodes and control said meanwhile came here.

    Raises:
        BrokerUnreachable, TopicMismatch: there is nothing to listen to.
    """
    names = settings.topics
    ages_s: dict[str, float] = {}
    snapshot: Snapshot | None = None
    async with Reader(
        connection_of(settings), (names.control, names.nodes), from_end=True, last=SNAPSHOTS_BACK
    ) as reader:
        old = True
        give_up_s = time.monotonic() + LISTEN_S
        while old or time.monotonic() < give_up_s:
            old = old and not await reader.at_end()
            for record in await reader.some():
                said = _said(record, names.control)
                if isinstance(said, Snapshot):
                    snapshot = said
                if said is not None and not old:
                    _hear(said, time.time() * 1000, ages_s)
    return snapshot, ages_s


def _new_enough(where: str, newest: Mapping[int, int]) -> Finding:
    if newest.get(TXN_OFFSET_COMMIT, -1) >= GROUPS_IN_TRANSACTIONS:
        return well("broker", f"{where} answers, Kafka 2.5 or newer")
    return bad("broker", f"{where} is older than Kafka 2.5", "upgrade it; 4.4 is what we test with")


def _said(record: Record, control: str) -> Snapshot | NodeReport | None:
    try:
        if record.topic == control:
            return decode(Snapshot, record.value or b"")
        return decode(NodeReport, record.value or b"")
    except FormatError:
        return None  # a tombstone, or a newer version's


def _hear(said: Snapshot | NodeReport, now_ms: float, ages_s: dict[str, float]) -> None:
    """Keep the least age of each writer: more is our own delay in reading."""
    if isinstance(said, Snapshot):
        name, at_ms = "control", said.published_at_ms
    else:
        name, at_ms = f"node {said.node}", said.reported_at_ms
    age_s = (now_ms - at_ms) / 1000
    ages_s[name] = min(age_s, ages_s.get(name, age_s), key=abs)
