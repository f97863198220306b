"""What a control worker says while a broker is away: each outage once, and no library's despair."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest
from aiokafka.errors import LeaderNotAvailableError
from faust.types.tuples import FutureMessage

from streams.control.service import _unless_unsent


def forget(future: asyncio.Future[object]) -> None:
    """Let a future fail that nobody asks."""
    future.set_exception(LeaderNotAvailableError())


async def test_only_records_of_faust_that_were_not_sent_are_no_news(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_unless_unsent)
    with caplog.at_level(logging.ERROR):
        forget(FutureMessage(None))
        gc.collect()
        assert caplog.messages == []
        forget(loop.create_future())
        gc.collect()
    assert [line.partition("\n")[0] for line in caplog.messages] == [
        "Future exception was never retrieved"
    ]
