"""What the control plane does with what Faust's consumer fetched, before Faust sees any of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokafka.structs import TopicPartition

from streams.control.app import pass_by

NODES, LAG = TopicPartition("nodes", 0), TopicPartition("lag", 0)


def record(offset: int) -> Any:
    return SimpleNamespace(offset=offset, key=b"k", value=b"v")


async def fetched(of_nodes: list[Any], of_lag: list[Any], *, needless: set[int]) -> Any:
    async def fetch(**_: Any) -> Any:
        return {NODES: of_nodes, LAG: of_lag}

    consumer: Any = SimpleNamespace(_getmany=fetch)
    desk: Any = SimpleNamespace(glance=lambda offset, *_: offset in needless)
    pass_by(consumer, "nodes", desk)
    return await consumer._getmany(active_partitions={NODES, LAG}, timeout=1.0)


async def test_a_report_that_no_table_needs_is_taken_and_all_else_is_left_to_the_agents() -> None:
    passing, lasting, last, other = record(1), record(2), record(3), record(1)
    left = await fetched([passing, lasting, last], [other], needless={1})
    assert left == {NODES: [lasting, last], LAG: [other]}


async def test_the_last_report_of_a_fetch_is_left_too_so_that_faust_commits_its_offset() -> None:
    passing, last = record(1), record(2)
    assert await fetched([passing, last], [], needless={1, 2}) == {NODES: [last], LAG: []}
