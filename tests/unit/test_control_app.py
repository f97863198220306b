"""What the control plane does with Faust's consumer before its agents see anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streams.control.app import pass_by


def message(topic: str, offset: int) -> Any:
    return SimpleNamespace(topic=topic, tp=(topic, 0), offset=offset, key=b"k", value=b"v")


async def test_a_report_that_no_table_needs_is_done_with_and_all_else_becomes_an_event() -> None:
    delivered: list[Any] = []
    acknowledged: list[Any] = []
    seen: dict[Any, float] = {}

    async def deliver(event: Any) -> None:
        delivered.append(event)

    app: Any = SimpleNamespace(
        topics=SimpleNamespace(on_message=deliver),
        consumer=SimpleNamespace(ack=acknowledged.append),
        monitor=SimpleNamespace(stream_inbound_time=seen),
    )
    desk: Any = SimpleNamespace(glance=lambda offset, *_: offset == 1)
    pass_by(app, "nodes", desk)
    passing, lasting, other = message("nodes", 1), message("nodes", 2), message("lag", 1)
    for each in (passing, lasting, other):
        await app.topics.on_message(each)
    assert acknowledged == [passing]
    assert delivered == [lasting, other]
    assert list(seen) == [("nodes", 0)]
