"""A client that is started for a while is stopped, whatever happens meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from runtime.kafka.started import started
from tests.waiting import until


class Client:
    """Connects once it is let, and notes what was done."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.may_connect = asyncio.Event()

    async def start(self) -> None:
        self.told.append("connecting")
        await self.may_connect.wait()
        self.told.append("connected")

    async def stop(self) -> None:
        self.told.append("stopped")


async def use(client: Client) -> None:
    async with started(client):
        client.told.append("in use")
        await asyncio.Event().wait()


async def test_one_that_is_cancelled_while_it_connects_connects_and_is_stopped() -> None:
    client = Client()
    using = asyncio.ensure_future(use(client))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    using.cancel()
    await asyncio.sleep(0)
    client.may_connect.set()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert client.told == ["connecting", "connected", "stopped"]


async def test_one_in_use_is_stopped() -> None:
    client = Client()
    client.may_connect.set()
    using = asyncio.ensure_future(use(client))
    await until(lambda: "in use" in client.told)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert client.told[-1] == "stopped"
