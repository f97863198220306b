"""The system's state in exact counts: what `overspill status` prints.

Counts are read here and now from committed offsets, finished before routed, as the probe does; from
the control plane come only the nodes, the threshold and how old they are. Idle is 0 everywhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.settings import Settings
from schemas.capability import Capability
from schemas.control import Freeze, LagSample, NodeReport, NodeState, Snapshot
from schemas.orders import NODE, POOL, Order
from schemas.outcomes import Mode
from schemas.pools import Pool
from schemas.topics import TopicNames
from streams.backlog import count_records
from streams.control.lag import Reading, fold_lag
from streams.control.lag_table import LagLine, LagTable
from streams.control.oldest import OldestRecords
from streams.control.orders import OrderBook
from streams.control.probe import Probe
from streams.control.rates import LagRow, fold_sample
from streams.control.record import last_lag_row, last_snapshot, standing_orders
from streams.control.reports import last_reports
from streams.control.snapshot import fleet_view, make_snapshot
from streams.control.term import take_over
from streams.registry import read_registry
from streams.router.outlook import mode_at

RATES_OLD_MS = 2_000
"""Rates measured longer ago are not shown: nobody measures."""


@dataclass(frozen=True)
class PoolStatus:
    """One pool; latency in ms, totals since the topics were created."""

    unfinished: int
    queue_depth: int
    slots: int
    free_slots: int
    nodes: int
    avg_latency_ms: float
    routed_total: int
    finished_total: int
    paused: bool
    lag: LagLine


@dataclass(frozen=True)
class StandingOrder:
    """An operator's order, what it is about (`node/gpu-1`), and whether the last snapshot obeys."""

    about: str
    order: Order
    in_force: bool


@dataclass(frozen=True)
class SystemStatus:
    """The whole system.

    Attributes:
        mode: what routers make of the control plane's age.
        threshold: last published; the starting one if none was.
        freeze: who holds the threshold, and why.
        control_age_s: age of the last snapshot, None if there is none.
        undecided: records of `requests` that no router has decided.
        in_retry: the same of `retry`.
        orders: all that stand, also those that no control worker has read yet.
        nodes: as last published; none once that is too old to mean anything.
        proven: by live node, what its self-test has proven of each model.
        node_lags: of live nodes, by id.
        partition_lags: by pool, in partition order.
        dead_letters_total, expired_total: of routers and nodes together.
        duplicates_total: as found by routers.
        models_revision: of the model registry.
        read_at_ms: epoch ms.
    """

    mode: Mode
    threshold: int
    freeze: Freeze | None
    control_age_s: float | None
    undecided: int
    in_retry: int
    orders: tuple[StandingOrder, ...]
    pools: dict[str, PoolStatus]
    nodes: tuple[NodeState, ...]
    proven: dict[str, tuple[Capability, ...]]
    node_lags: dict[str, LagLine]
    partition_lags: dict[str, tuple[LagLine, ...]]
    dead_letters_total: int
    expired_total: int
    duplicates_total: int
    read_at_ms: int
    models_revision: int = 0


async def read_status(settings: Settings, connection: Connection) -> SystemStatus:
    """Return the state of the system now; takes about a second.

    Raises:
        BrokerUnreachable: no broker answers.
        TopicMismatch: a topic is missing.
        FormatError: offset metadata or a snapshot that this release cannot read.
    """
    names = settings.topics
    probe = Probe(connection, names, settings.pools)
    offsets = OffsetReader(connection)
    oldest = OldestRecords(connection, names)
    try:
        (_, reading), snapshot, book, registry, row = await asyncio.gather(
            probe.read(),
            last_snapshot(connection, offsets, names),
            standing_orders(connection, offsets, names),
            read_registry(connection, offsets, names),
            last_lag_row(connection, offsets, names),
        )
        nodes = 0 if snapshot is None else len(snapshot.nodes)
        waiting, _, reports = await asyncio.gather(
            _waiting(connection, offsets, names, reading),
            oldest.look(reading),
            last_reports(connection, offsets, names, nodes),
        )
    finally:
        await probe.close()
        await offsets.close()
        await oldest.close()
    sample = fold_lag(reading, names, settings.pools, oldest.arrivals)
    now_ms = time.time_ns() // 1_000_000
    status = status_of(sample, row, snapshot, book, waiting, settings.pools, now_ms, reports)
    return replace(status, models_revision=registry.revision)


def status_of(
    sample: LagSample,
    row: LagRow | None,
    snapshot: Snapshot | None,
    book: OrderBook,
    waiting: tuple[int, int],
    pools: tuple[Pool, ...],
    now_ms: int,
    reports: Mapping[str, NodeReport] = MappingProxyType({}),
) -> SystemStatus:
    """Return the status that these readings say.

    Args:
        sample: the counts.
        row: of the lag table, None without any: from it come the rates.
        snapshot: the last one published, None without any.
        book: the orders that stand.
        waiting: undecided records of `requests` and of `retry`.
        pools: as configured.
        now_ms: epoch ms.
        reports: what nodes say of themselves, by id.
    """
    # Another machine's clock may be ahead: an age below 0 says nothing.
    age_s = None if snapshot is None else max(0, now_ms - snapshot.published_at_ms) / 1000
    mode = mode_at(age_s)
    # What was true half a minute ago or more is not shown as if it were.
    known = None if mode is Mode.BLIND else snapshot
    nodes = () if known is None else known.nodes
    threshold = take_over(snapshot, OrderBook(), 0.0).row
    measured = row is not None and now_ms - row.sample.probed_at_ms < RATES_OLD_MS
    folded = fold_sample(row if measured else None, sample)
    now = make_snapshot(folded, nodes, threshold, OrderBook(), number=0, published_at_ms=now_ms)
    table = LagTable(sample, folded.paces if measured else None, nodes, now_ms)
    undecided, in_retry = waiting
    return SystemStatus(
        mode=mode,
        threshold=threshold.threshold,
        freeze=None if snapshot is None else snapshot.freeze,
        control_age_s=age_s,
        undecided=undecided,
        in_retry=in_retry,
        orders=tuple(
            StandingOrder(about, order, in_force(known, about, order))
            for about, order in sorted(book.standing.items())
        ),
        pools=_pools(now, table.pools(), pools, known),
        nodes=nodes,
        proven={
            node.id: reports[node.id].capabilities
            for node in nodes
            if node.live and node.id in reports
        },
        node_lags=table.nodes(),
        partition_lags=table.partitions(),
        dead_letters_total=sample.dead + sample.finished_dead,
        expired_total=sample.expired + sample.finished_expired,
        duplicates_total=sample.duplicate,
        read_at_ms=now_ms,
    )


def in_force(snapshot: Snapshot | None, about: str, order: Order) -> bool:
    """Return whether routers that have this snapshot do as the order says."""
    if snapshot is None:
        return False
    if about.startswith(NODE):
        return any(NODE + node.id == about and node.draining for node in snapshot.nodes)
    if about.startswith(POOL):
        return any(POOL + name == about and pool.paused for name, pool in snapshot.pools.items())
    return snapshot.freeze is not None and snapshot.freeze.at_ms == order.at_ms


def status_json(status: SystemStatus, *, lag: bool = False) -> dict[str, Any]:
    """Return the document that `overspill status --json` prints; with `lag`, the whole table."""
    document: dict[str, Any] = {
        "mode": status.mode.value,
        "threshold": status.threshold,
        "control_age_s": status.control_age_s,
        "undecided": status.undecided,
        "in_retry": status.in_retry,
        "orders": [
            {"about": said.about, **said.order.model_dump(mode="json"), "in_force": said.in_force}
            for said in status.orders
        ],
        "pools": {name: _pool_json(pool) for name, pool in status.pools.items()},
        "capabilities": {
            node: [one.model_dump() for one in proven] for node, proven in status.proven.items()
        },
        "dead_letters_total": status.dead_letters_total,
        "expired_total": status.expired_total,
        "duplicates_total": status.duplicates_total,
        "models_revision": status.models_revision,
    }
    if lag:
        document["lag"] = {
            "nodes": {node: vars(line) for node, line in status.node_lags.items()},
            "partitions": {
                pool: [vars(line) for line in lines]
                for pool, lines in status.partition_lags.items()
            },
        }
    return document


def _pool_json(pool: PoolStatus) -> dict[str, Any]:
    document, line = dict(vars(pool)), vars(pool.lag)
    del document["lag"]
    said_already = ("routed", "finished", "unfinished")
    return {**document, **{name: line[name] for name in line if name not in said_already}}


def _pools(
    now: Snapshot, lines: Mapping[str, LagLine], pools: tuple[Pool, ...], known: Snapshot | None
) -> dict[str, PoolStatus]:
    view = fleet_view(now, pools)
    paused = {} if known is None else {name: pool.paused for name, pool in known.pools.items()}
    found = {}
    for pool in pools:
        seen, state = view.pool(pool.name), now.pools[pool.name]
        live = [node for node in now.nodes if node.live and node.pool == pool.name]
        found[pool.name] = PoolStatus(
            unfinished=sum(partition.unfinished for partition in state.partitions),
            queue_depth=int(seen.queue_depth),
            slots=sum(node.slots for node in live),
            free_slots=int(seen.free_slots),
            nodes=len(live),
            avg_latency_ms=seen.latency_ms,
            routed_total=state.routed_total,
            finished_total=state.finished_total,
            paused=paused.get(pool.name, False),
            lag=lines[pool.name],
        )
    return found


async def _waiting(
    connection: Connection, offsets: OffsetReader, names: TopicNames, reading: Reading
) -> tuple[int, int]:
    places = [TopicPartition(*place) for place in reading.routed]
    begin = await offsets.begin(places)
    end = await offsets.end(places)
    spans = {}
    for place in places:
        committed = reading.routed[place]
        # Without a commit nothing was decided; before the log's start nothing is left to decide.
        start = max(begin[place], 0 if committed is None else committed.offset)
        spans[place] = (start, end[place])
    counts = await count_records(connection, spans)
    return (
        sum(count for place, count in counts.items() if place.topic == names.requests),
        sum(count for place, count in counts.items() if place.topic == names.retry),
    )
