"""What a control worker says while a broker is away: each outage once, and no library's despair."""

from __future__ import annotations

import asyncio
import gc
import logging
import time

import pytest
from aiokafka.errors import KafkaError, LeaderNotAvailableError
from faust.types.tuples import FutureMessage

from schemas.pools import DEFAULT_POOLS
from streams.control import service
from streams.control.desk import Desk
from streams.control.service import _unless_unsent
from streams.control.tables import Tables
from streams.policy.controllers import CONTROLLERS


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


async def test_an_app_whose_samples_do_not_come_back_is_thrown_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "WATCH_S", 0.0)
    desk = Desk(Tables({}, {}, {}, {}), DEFAULT_POOLS, CONTROLLERS["article"])
    desk.take_duty(0, 0, time.monotonic())
    desk.asked(time.monotonic())
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(service._watch(desk), 0.05)
    desk.unasked()
    desk.asked(time.monotonic() - service.DEAF_S)
    with pytest.raises(KafkaError, match="no record of lag comes back"):
        await asyncio.wait_for(service._watch(desk), 5)


async def test_an_app_that_a_rebalance_leaves_out_is_thrown_away_sooner_than_one_that_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "WATCH_S", 0.0)
    monkeypatch.setattr(service, "REJOIN_WITHIN_S", 0.05)
    desk = Desk(Tables({}, {}, {}, {}), DEFAULT_POOLS, CONTROLLERS["article"])
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(service._watch(desk), 0.2)
    desk.stand_by()
    watching = asyncio.ensure_future(service._watch(desk))
    await asyncio.sleep(0.1)
    desk.leave_duty()
    with pytest.raises(KafkaError, match=r"not assigned within 0\.05 s"):
        await asyncio.wait_for(watching, 5)
