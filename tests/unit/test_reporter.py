"""What a node leaves in the books when it goes: nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from executors.reporter import Reporter
from schemas.control import NodeCondition, NodeReport
from schemas.pools import ComputeType
from tests.waiting import until


class SlowProducer:
    """Keeps what it was given, in order; the tombstone takes until it is told."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.written = asyncio.Event()

    async def send_and_wait(self, _: str, value: bytes | None, **__: Any) -> None:
        self.values.append(value)
        if value is None:
            await self.written.wait()


def report() -> NodeReport:
    return NodeReport(
        node="n1", pool="gpu", compute_type=ComputeType.GPU, generation=1,
        state=NodeCondition.DRAINING, slots=1, busy=0, backend="hand", latency_mean_ms=1.0,
        reported_at_ms=1,
    )  # fmt: skip


async def test_no_report_follows_a_nodes_farewell() -> None:
    """It would stand in the topic for ever, and for 3 s the node would count as live."""
    producer = SlowProducer()
    reporter = Reporter({"bootstrap_servers": "127.0.0.1:1"}, "nodes", "n1", report)
    reporter._producer = producer  # type: ignore[assignment]  a stand-in
    reporting = asyncio.ensure_future(reporter.run())
    await until(lambda: len(producer.values) == 1)
    leaving = asyncio.ensure_future(reporter.leave())
    await until(lambda: producer.values[-1] is None)
    reporter.changed()
    await reporter.send()
    producer.written.set()
    await leaving
    reporting.cancel()
    await asyncio.wait({reporting})
    assert producer.values[-1] is None
