"""A control worker exports what it says while it says it, and nothing of it afterwards."""

from __future__ import annotations

import asyncio
import math

import pytest

from runtime.kafka.transactions import FencedProducer
from runtime.metrics import Metrics
from schemas.control import (
    LagSample,
    NodeState,
    PartitionLag,
    PartitionState,
    PoolState,
    Snapshot,
)
from schemas.message import encode
from schemas.metrics import control as declared
from schemas.metrics.process import BUILD_INFO
from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames
from streams.board.board import Board
from streams.control import publisher
from streams.control.desk import Desk
from streams.control.gauges import Gauges
from streams.control.tables import Tables
from streams.policy.controllers import CONTROLLERS
from tests.waiting import until


def snapshot(gpu: int, threshold: int = 12) -> Snapshot:
    unfinished = {pool.name: 0 for pool in DEFAULT_POOLS} | {"gpu": gpu}
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=1,
        published_at_ms=1,
        threshold=threshold,
        pools={
            name: PoolState(
                routed_total=count,
                finished_total=0,
                partitions=(PartitionState(unfinished=count, finish_rate=0.0),),
            )
            for name, count in unfinished.items()
        },
        nodes=(
            NodeState(id="g", pool="gpu", live=True, slots=2, partitions=(0,), latency_ms=50.0),
        ),
        requests_included=(),
        retry_included=(),
    )


def exported(metrics: Metrics) -> dict[str, float]:
    return {
        sample.name + "".join(f"{{{pool}}}" for pool in sample.labels.values()): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if family.type == "gauge" and family.name != BUILD_INFO.name
    }


def test_a_worker_that_falls_silent_exports_nothing_it_said() -> None:
    metrics = Metrics("control", "1")
    gauges = Gauges(metrics, Tables({}, {}, {}, {}), DEFAULT_POOLS, Board(DEFAULT_POOLS, 0))
    assert exported(metrics) == {"overspill_control_active": 0}
    gauges.show(snapshot(gpu=9))
    said = exported(metrics)
    assert (said["overspill_control_active"], said[declared.THRESHOLD.name]) == (1, 12)
    assert said[f"{declared.LAG_RECORDS.name}{{gpu}}"] == 9
    gauges.silent()
    assert exported(metrics) == {"overspill_control_active": 0}
    gauges.show(snapshot(gpu=4))
    assert exported(metrics)[f"{declared.LAG_RECORDS.name}{{gpu}}"] == 4


def test_what_cannot_be_told_has_no_series_and_nothing_is_infinite_or_no_number() -> None:
    metrics, tables = Metrics("control", "1"), Tables({}, {}, {}, {})
    gauges = Gauges(metrics, tables, DEFAULT_POOLS, Board(DEFAULT_POOLS, 0))
    drain, age = f"{declared.LAG_DRAIN.name}{{gpu}}", f"{declared.LAG_AGE.name}{{gpu}}"

    def shown(at_ms: int, finished: int, oldest_at_ms: int | None) -> dict[str, float]:
        gpu = PartitionLag(
            routed=10, finished=finished, unfinished=10 - finished, oldest_at_ms=oldest_at_ms
        )
        sample = LagSample(
            probed_at_ms=at_ms,
            took_ms=1,
            pools={"gpu": (gpu,)},
            requests_included=(),
            retry_included=(),
        )
        tables.fold_sample(encode(sample))
        gauges.show(snapshot(gpu=10 - finished).model_copy(update={"published_at_ms": at_ms}))
        said = exported(metrics)
        assert all(math.isfinite(value) and value >= 0 for value in said.values())
        return said

    stuck = shown(1_000, 2, None)
    assert not {drain, age} & stuck.keys()
    moving = shown(2_000, 6, 500)
    assert moving[drain] > 0
    assert moving[age] == 1.5
    still = shown(200_000, 6, 500)
    assert drain not in still
    assert shown(201_000, 10, None)[drain] == 0


async def test_a_snapshot_that_cannot_be_written_is_not_exported_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher, "SILENT_AFTER_S", 0.01)
    metrics, tables = Metrics("control", "1"), Tables({}, {}, {}, {})
    gauges = Gauges(metrics, tables, DEFAULT_POOLS, Board(DEFAULT_POOLS, 0))
    desk = Desk(tables, DEFAULT_POOLS, CONTROLLERS["article"])
    speaks = publisher.Publisher({}, TopicNames(), desk, gauges)
    answered = asyncio.Event()

    class Hanging(FencedProducer):
        async def commit(self, *_: object) -> None:
            await answered.wait()

    gauges.show(snapshot(gpu=9))
    publishing = asyncio.ensure_future(speaks._publish(Hanging({}, "control"), snapshot(gpu=9)))
    await until(lambda: exported(metrics) == {"overspill_control_active": 0})
    assert not publishing.done()
    answered.set()
    await publishing
