"""A control worker's screen without Kafka: a made-up fleet, seen and served by the real parts.

`Screen().look(node("gpu-1", unfinished=20))` is what the worker sees; metrics and page follow.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from runtime.metrics import Metrics
from runtime.settings import WebSettings
from runtime.web import Heartbeat, WebServer
from schemas.capability import Capability
from schemas.control import LagSample, NodeCondition, NodeReport, NodeTotals, PartitionLag
from schemas.decisions import Decided, DecisionRow
from schemas.message import encode
from schemas.pools import DEFAULT_POOLS
from streams.board.board import Board
from streams.board.pages import board_routes
from streams.board.since import look
from streams.control.gauges import Gauges
from streams.control.tables import Tables
from tests.fleet import FleetNode, request, snapshot

TYPES = {pool.name: pool.compute_type for pool in DEFAULT_POOLS}
FINISHED = 1000
"""Of each partition, since ever."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Screen:
    """What one worker shows."""

    def __init__(self) -> None:
        self.metrics = Metrics("control", "test")
        self.tables = Tables({}, {}, {}, {})
        self.board = Board(DEFAULT_POOLS, now_ms())
        self.gauges = Gauges(self.metrics, self.tables, DEFAULT_POOLS, self.board)

    def look(
        self,
        *nodes: FleetNode,
        oldest_s: float = 1.0,
        totals: Mapping[str, NodeTotals] | None = None,
        models: Mapping[str, tuple[str, ...]] | None = None,
        proven: Mapping[str, tuple[Capability, ...]] | None = None,
        ends: tuple[int, ...] = (),
        **said: Any,
    ) -> None:
        """See this fleet: every node says what it has counted; the oldest record waits so long."""
        self.board.ends = ends
        seen = snapshot(nodes, **said).model_copy(
            update={"published_at_ms": now_ms(), "requests_included": (0,) * len(ends)}
        )
        sample = LagSample(
            probed_at_ms=seen.published_at_ms,
            took_ms=1.0,
            pools={
                name: tuple(
                    PartitionLag(
                        routed=FINISHED + partition.unfinished,
                        finished=FINISHED,
                        unfinished=partition.unfinished,
                        oldest_at_ms=seen.published_at_ms - int(oldest_s * 1000),
                    )
                    for partition in seen.pools[name].partitions
                )
                for name in TYPES
            },
            requests_included=seen.requests_included,
            retry_included=(),
        )
        self.tables.fold_sample(encode(sample))
        states = [
            state.model_copy(update={"models": (models or {}).get(state.id, state.models)})
            for state in seen.nodes
        ]
        for state in states:
            report = NodeReport(
                node=state.id,
                pool=state.pool,
                compute_type=TYPES[state.pool],
                generation=1,
                state=NodeCondition.READY,
                slots=state.slots,
                busy=state.busy,
                backend="emulated",
                emulated=True,
                latency_mean_ms=state.latency_ms,
                latency_p99_ms=3 * state.latency_ms,
                capabilities=(proven or {}).get(state.id, ()),
                totals=(totals or {}).get(state.id, NodeTotals()),
                reported_at_ms=now_ms(),
            )
            self.tables.fold_report(state.id.encode(), encode(report))
        self.gauges.show(seen.model_copy(update={"nodes": tuple(states)}))
        look(self.board, now_ms(), time.monotonic())

    def decide(
        self, outcome: str, pool: str | None, count: int, *, mode: str = "normal", **features: Any
    ) -> None:
        """Read a record of decisions: so many requests with this outcome."""
        read = request(**features)
        rows = tuple(
            DecisionRow(0, number, f"r{number}", 0, 1, 0, outcome, pool, features=read)
            for number in range(count)
        )
        self.board.decided(Decided("router-1", mode, rows), time.monotonic())


@asynccontextmanager
async def served(screen: Screen, port: int = 0) -> AsyncIterator[str]:
    """Serve its page and metrics on loopback; yields where."""
    settings, routes = WebSettings(port=port), board_routes(screen.board)
    server = WebServer(settings, screen.metrics, Heartbeat(), lambda: None, routes)
    await server.open()
    try:
        yield server.url
    finally:
        await server.close()
