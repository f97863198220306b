from __future__ import annotations

import asyncio
import contextlib
import logging
from types import SimpleNamespace

import pytest
from aiokafka.errors import NodeNotReadyError
from aiokafka.structs import TopicPartition

from runtime.kafka import fetch
from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import Fetcher
from runtime.kafka.outage import Outage
from runtime.logs import start_logging
from runtime.settings import LogSettings


def test_an_outage_is_two_lines_however_often_it_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage(logging.getLogger("some.role"), "fetching from broker 1")
    outage.over()
    for why in ("closed", "not ready", "not ready"):
        outage.failed(why)
    outage.over()
    outage.over()
    assert [record.getMessage() for record in caplog.records] == [
        "fetching from broker 1 fails, trying until it works: closed",
        "fetching from broker 1 works again, after 0 s",
    ]
    outage.failed("again")
    assert caplog.records[-1].getMessage().endswith("again")


class AwayThenBack:
    """A client whose broker refuses five requests and then answers."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(leader_for_partition=lambda _: 1)
        self.sent = 0
        self.works = asyncio.Event()

    def force_metadata_update(self) -> None: ...

    async def send(self, node: int, _: object) -> SimpleNamespace:
        self.sent += 1
        await asyncio.sleep(0)
        if self.sent <= 5:
            raise NodeNotReadyError(f"node {node}")
        if self.sent > 7:
            self.works.set()
        return SimpleNamespace(topics=[])


async def test_a_broker_that_is_away_is_asked_often_and_spoken_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fetch, "RETRY_S", 0)
    monkeypatch.setattr(fetch, "POLL_S", 0)
    caplog.set_level(logging.INFO)
    client = AwayThenBack()
    sink = SimpleNamespace(wanted=lambda: {TopicPartition("t", 0): 0})
    fetching = asyncio.ensure_future(Fetcher(client, sink, HostCounts()).run())
    await asyncio.wait_for(client.works.wait(), 5)
    fetching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await fetching
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert all("broker 1" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(("level", "heard"), [("INFO", False), ("DEBUG", True)])
def test_the_client_library_is_heard_only_when_debugging(level: str, heard: bool) -> None:
    start_logging(LogSettings.model_validate({"level": level}))
    assert logging.getLogger("aiokafka.conn").isEnabledFor(logging.ERROR) is heard
