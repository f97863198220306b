"""The Faust app of the control plane: its whole topology, on one screen.

nodes -> fold_nodes -> node table ----------------------------.
lag   -> fold_lag ---> lag table, threshold table ------------+-> publish -> control
orders -> fold_orders -> order table -------------------------'
          ^------------ probe <- committed offsets of all groups

Faust gives the tables, their changelogs, their owner and their stand-by. Only agents may write a
table, so the probe puts its reading on a topic and an agent folds it. Values are absolute: Faust
may deliver a record twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import faust
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outage import Outage
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas.control import LAG_KEY
from schemas.errors import FormatError, OverspillError
from schemas.message import encode
from schemas.orders import read_order
from schemas.topics import CONTROL_TABLES, LAG, NODES, ORDERS
from streams.board.board import Board
from streams.control.canary import Canary
from streams.control.desk import Desk
from streams.control.gauges import Gauges
from streams.control.oldest import OldestRecords
from streams.control.probe import Probe
from streams.control.publisher import Publisher
from streams.control.tables import Tables
from streams.policy.controllers import CONTROLLERS

log = logging.getLogger(__name__)

PROBE_S = 0.1
"""From probe to probe: a router's counts are then about as old as its own transactions are long."""
STALE_READING_MS = 1_000.0
"""A reading this slow (a paused process, a broker away) tells nothing of one moment: dropped."""
AGAIN_S = 1.0
"""Pause after a reading that failed."""
FORGET_S = 10.0
"""How often silent nodes are looked for."""

FETCH_WAIT_MS = 25
"""How long the broker holds a fetch. While records of one partition are folded, the next fetch asks
for the others only; held for Faust's own 1.5 s, nothing else comes meanwhile (docs/adr/0057)."""
FETCH_MIN_BYTES = 64 * 1024
"""The broker holds it until there is so much: else each of 1,000 reports a second is a fetch."""

BYTES: dict[str, Any] = {"key_type": bytes, "value_type": bytes}
RAW: dict[str, Any] = {**BYTES, "key_serializer": "raw", "value_serializer": "raw"}
"""Bytes in and out: what does not decode is ours to count, not Faust's to stumble over."""

SETTINGS: dict[str, Any] = {
    "store": "memory://",  # four small tables: rebuilt from their changelogs in milliseconds
    "table_standby_replicas": 1,
    "web_enabled": False,  # runtime.web serves metrics and health
    "topic_partitions": 1,  # of the changelogs, as of `nodes`, `lag` and `orders`
    "topic_disable_leader": True,
    "stream_wait_empty": False,  # a rebalance does not wait for agents: folding again is harmless
    "broker_session_timeout": 6.0,  # Kafka's floor in its own configuration
    "broker_heartbeat_interval": 1.0,
    "broker_rebalance_timeout": 6.0,
    "broker_request_timeout": 10.0,
    "producer_request_timeout": 10.0,  # Faust's own 20 minutes would hide a broker that is away
}


def create_app(
    settings: Settings,
    connection: Connection,
    metrics: Metrics,
    board: Board,
    *,
    replicas: int,
    data_dir: Path,
) -> tuple[faust.App, Desk]:
    """Return a new app and its desk; the app is started and stopped on the running loop.

    Args:
        settings: of the process.
        connection: to the brokers.
        metrics: which it feeds.
        board: which it feeds too.
        replicas: of the changelog topics, should Faust have to make one.
        data_dir: of this process alone.
    """
    names, pools = settings.topics, settings.pools
    app = faust.App(
        f"{settings.prefix}control",
        broker=[f"kafka://{host}" for host in connection["bootstrap_servers"].split(",")],
        broker_credentials=credentials(connection),
        topic_replication_factor=replicas,
        datadir=data_dir,
        **SETTINGS,
    )
    nodes = app.topic(names.nodes, **RAW)
    lag = app.topic(names.lag, **RAW)
    orders = app.topic(names.orders, **RAW)
    tables = Tables(**{name: app.Table(name, partitions=1, **BYTES) for name in CONTROL_TABLES})
    desk = Desk(tables, pools, CONTROLLERS[settings.policy.threshold])
    gauges = Gauges(metrics, tables, pools, board)
    oldest = OldestRecords(connection, names)
    publisher = Publisher(connection, names, desk, gauges)

    def order(offset: int, key: bytes | None, value: bytes | None, now_s: float) -> None:
        desk.order(offset, key, value, now_s)
        about, standing = read_order(key, value)
        log.info("order on %s: %s", about, standing.in_words if standing else "ended")

    pass_by(app.consumer, names.nodes, desk)
    app.agent(nodes, name="fold_nodes")(_fold(gauges, NODES, desk.report))
    app.agent(lag, name="fold_lag")(_fold(gauges, LAG, desk.sample))
    app.agent(orders, name="fold_orders")(_fold(gauges, ORDERS, order))

    async def assigned(*_: Any, **__: Any) -> None:
        """Runs when the tables are complete, before the agents go on."""
        fetch_on_a_beat(app)
        # Topics with equally many partitions are assigned together: all of them, or none.
        inputs = [TopicPartition(topic, 0) for topic in (names.nodes, names.lag, names.orders)]
        if not app.consumer.assignment().issuperset(inputs):
            desk.stand_by()
        else:
            async with OffsetReader(connection) as offsets:
                ends = await offsets.end(inputs[:2], stable=False)
            desk.take_duty(ends[inputs[0]], ends[inputs[1]], time.monotonic())

    async def revoked(*_: Any, **__: Any) -> None:
        desk.leave_duty()

    app.on_rebalance_complete.connect(assigned)
    app.on_partitions_revoked.connect(revoked)

    async def probe() -> None:
        await _probe(desk, gauges, Probe(connection, names, pools), oldest, lag)

    async def forget() -> None:
        await _forget(desk, nodes)

    services = [probe, oldest.run, publisher.run, forget]
    if settings.canary.model is not None:
        services.append(Canary(settings, connection, desk, board, metrics).run)
    for service in services:
        app.task(service)
    return app, desk


def credentials(connection: Connection) -> Any:
    """Return for Faust what the other clients are given; None for brokers that are open to all."""
    if "sasl_mechanism" in connection:
        return faust.SASLCredentials(
            username=connection["sasl_plain_username"],
            password=connection["sasl_plain_password"],
            mechanism=connection["sasl_mechanism"],
            ssl_context=connection["ssl_context"],
        )
    if "ssl_context" in connection:
        return faust.SSLCredentials(connection["ssl_context"])
    return None


def pass_by(consumer: Any, nodes: str, desk: Desk) -> None:
    """Take reports that no table needs before they become messages of Faust's.

    A message costs Faust ten times what the report in it does, and 500 nodes send 1,000 a second;
    nearly all of them say that nothing has changed (docs/adr/0058).
    """
    fetch = consumer._getmany  # noqa: SLF001  Faust has no hook here; pinned by a test

    async def getmany(**asked: Any) -> Any:
        fetched = await fetch(**asked)
        return {
            tp: _not_taken(records, desk) if tp.topic == nodes else records
            for tp, records in fetched.items()
        }

    consumer._getmany = getmany  # noqa: SLF001  as above


def _not_taken(records: list[Any], desk: Desk) -> list[Any]:
    """Return the records that are for the agent: at least the last one, so that Faust commits."""
    now_s = time.monotonic()
    return [
        record
        for record in records
        if record is records[-1] or not desk.glance(record.offset, record.key, record.value, now_s)
    ]


def fetch_on_a_beat(app: faust.App) -> None:
    """Let the app's consumer fetch on a beat of its own; Faust has no setting for it."""
    consumer: Any = app.consumer
    fetcher = consumer._thread._ensure_consumer()._fetcher  # noqa: SLF001  pinned by a test
    fetcher._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001  as above
    fetcher._fetch_min_bytes = FETCH_MIN_BYTES  # noqa: SLF001  as above


def _fold(
    gauges: Gauges, topic: str, take: Callable[[int, bytes | None, bytes | None, float], None]
) -> Callable[[Any], Awaitable[None]]:
    """Return an agent that hands each record to `take`, and counts what does not decode."""

    async def fold(records: Any) -> None:
        async for event in records.events():
            offset = event.message.offset
            try:
                take(offset, event.key, event.value, time.monotonic())
            except FormatError as error:
                gauges.unreadable(topic)
                log.warning("record %s of %s ignored: %s", offset, topic, error)

    return fold


async def _probe(desk: Desk, gauges: Gauges, probe: Probe, oldest: OldestRecords, lag: Any) -> None:
    """Put a reading on `lag` every 100 ms while on duty.

    On a grid: ten samples are a second then, so that each step of the threshold falls on one.
    """
    outage = Outage(log, "reading the counts")
    due_s = time.monotonic()
    try:
        while True:
            await desk.on_duty.wait()
            try:
                sample, oldest.reading = await probe.read(oldest.arrivals)
            except (OverspillError, KafkaError) as error:
                outage.failed(error)
                desk.unasked()
                await asyncio.sleep(AGAIN_S)
            else:
                outage.over()
                gauges.probed(sample)
                if sample.took_ms < STALE_READING_MS and desk.on_duty.is_set():
                    _ignore(await lag.send(key=LAG_KEY, value=encode(sample)))
                    desk.asked(time.monotonic())
            now_s = time.monotonic()
            due_s += PROBE_S * max(1, math.ceil((now_s - due_s) / PROBE_S))
            await asyncio.sleep(due_s - now_s)
    finally:
        await probe.close()


async def _forget(desk: Desk, nodes: Any) -> None:
    """Write the leave of nodes that died without one, long ago."""
    while True:
        await desk.on_duty.wait()
        for node in desk.forgotten(time.monotonic()):
            log.info("node %s has been silent for long: forgotten", node)
            _ignore(await nodes.send(key=node.encode(), value=None))
        await asyncio.sleep(FORGET_S)


def _ignore(sent: asyncio.Future[Any]) -> None:
    """Leave a record to its fate: the next one says it all; unread, asyncio would log a crash."""
    sent.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
