"""Widths: what topics have grown to, and what a router makes of it."""

from __future__ import annotations

import asyncio

import pytest

from runtime.kafka import widths as module
from runtime.kafka.topics import Placed
from runtime.kafka.widths import Widths
from runtime.metrics import Metrics
from runtime.settings import Settings
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from streams.router.service import Router, pool_widths

NAMES = TopicNames()
TOPICS = [NAMES.results, NAMES.dead_letter, *(t for p in DEFAULT_POOLS for t in NAMES.of_pool(p))]


class Brokers:
    """What the brokers say of topics, one after another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: dict[str, Placed]) -> None:
        self._answers = iter(answers)

        async def describe(*_: object) -> dict[str, Placed]:
            await asyncio.sleep(0)
            return next(self._answers)

        async def connect(*_: object) -> object:
            return object()

        monkeypatch.setattr(module, "describe", describe)
        monkeypatch.setattr(module, "connect", connect)


def router(widths: Widths) -> Router:
    return Router(Settings(), {}, Metrics("router", "0"), widths)


def view_widths(made: Router) -> dict[str, int]:
    return {name: len(pool.unfinished) for name, pool in made._outlook.view.pools.items()}


async def test_growth_counts_once_every_added_partition_has_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Brokers(monkeypatch, {"t": Placed(8, 6, 1)}, {"t": Placed(8, 8, 1)})
    widths = Widths({}, {"t": 4})
    calls: list[int] = []
    widths.on_growth = lambda: calls.append(widths["t"])
    await widths.look()
    assert (dict(widths), calls) == ({"t": 4}, [])
    await widths.look()
    assert (dict(widths), calls) == ({"t": 8}, [8])


async def test_a_broker_that_lags_behind_takes_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Brokers(monkeypatch, {"t": Placed(8, 8, 1)}, {"t": Placed(4, 4, 1)}, {})
    widths = Widths({}, {"t": 4})
    for _ in range(3):
        await widths.look()
    assert dict(widths) == {"t": 8}


def test_a_pool_has_the_partitions_that_are_there_in_both_its_topics() -> None:
    widths = {**dict.fromkeys(TOPICS, 4), NAMES.express("gpu"): 6, NAMES.pool("cpu"): 8}
    assert pool_widths(Settings(), widths) == {"gpu": 4, "cpu": 8, "npu": 4}


async def test_a_router_routes_to_what_pools_have_grown_to(monkeypatch: pytest.MonkeyPatch) -> None:
    Brokers(monkeypatch, dict.fromkeys(TOPICS, Placed(6, 6, 1)))
    widths = Widths({}, dict.fromkeys(TOPICS, 4))
    made = router(widths)
    assert view_widths(made) == {"gpu": 4, "cpu": 4, "npu": 4}
    await widths.look()
    assert view_widths(made) == {"gpu": 6, "cpu": 6, "npu": 6}


async def test_partitions_whose_counts_no_offset_could_carry_get_no_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Brokers(monkeypatch, dict.fromkeys(TOPICS, Placed(1000, 1000, 1)))
    widths = Widths({}, dict.fromkeys(TOPICS, 4))
    made = router(widths)
    await widths.look()
    assert view_widths(made) == {"gpu": 4, "cpu": 4, "npu": 4}
    assert "added partitions get no work: 1000 partitions need" in caplog.text
