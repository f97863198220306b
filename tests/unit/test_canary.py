"""A canary is a request like any other, and in no figure of what callers sent."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deploy.costs import Ledger
from executors.meter import Meter
from executors.work import Source, Work, read_work
from runtime.metrics import Metrics
from runtime.settings import MetricsSettings
from schemas import canary as mark
from schemas.control import NodeTotals
from schemas.decisions import Decided, DecisionRow
from schemas.outcomes import Status
from schemas.parsing import parse_request
from schemas.pools import ComputeType
from schemas.result import Result
from schemas.service import UNKNOWN_SIZE, ServiceTime
from streams.board.conditions import conditions
from streams.control.canary import canary
from tests.boards import Screen, now_ms
from tests.fleet import node, request
from tests.unit.executor_doubles import record

FLEET = (node("gpu-1"), node("cpu-1"), node("npu-1"))


@pytest.mark.parametrize("kind", list(ComputeType))
def test_it_is_a_request_that_only_its_compute_type_may_run(kind: ComputeType) -> None:
    key, value = canary(kind, "m", now_ms())
    sent = parse_request(value)
    assert (sent.id.encode(), sent.model_name, sent.tenant) == (key, "m", mark.TENANT)
    assert sent.requires is not None
    assert sent.requires.compute_types == (kind,)
    assert sent.latency_slo_ms is None


def work(**fields: Any) -> Work:
    sent = record(0, **fields)
    return read_work(Source("p.gpu", 0, 0), None, sent.value, sent.headers, express=False)


def test_nodes_count_its_runs_apart_from_cost_results_and_objectives() -> None:
    metrics = Metrics("executor", "1")
    meter = Meter(metrics, "gpu", MetricsSettings())
    ran = work(tenant=mark.TENANT, latency_slo_ms=1)
    meter.ran(ran, 50.0, 0.05)
    meter.result(ran, Status.OK, time.time() * 1000)
    assert meter.totals() == NodeTotals()
    value = metrics.registry.get_sample_value
    assert value("overspill_executor_canary_runs_total", {"pool": "gpu"}) == 1
    assert value("overspill_executor_cost_total", {"pool": "gpu"}) == 0
    meter.ran(work(), 50.0, 0.05)
    assert meter.totals().cost == 0.05


def test_it_is_on_nobodys_bill() -> None:
    ledger = Ledger(("tenant",))
    paid = {
        "id": "r",
        "status": "ok",
        "cost": 2.0,
        "timings_ms": {"to_router": 1, "in_pool": 1, "run": 1, "total": 3},
        "decision": {"reason": "overflow", "threshold": 1, "policy": "x", "decided_at_ms": 1},
    }
    for tenant in (mark.TENANT, "somebody"):
        ledger.take(Result.model_validate({**paid, "tenant": tenant}), 0)
    assert ledger.lines.keys() == {("somebody",)}


def test_it_is_in_no_saving() -> None:
    screen = Screen()
    told = (ServiceTime(model="m", size=UNKNOWN_SIZE, count=9, p50=50.0, p95=60.0),)
    screen.look(*FLEET, service={ComputeType.GPU: told})
    for name in (f"{mark.ID}gpu:1", "r1"):
        row = DecisionRow(0, 0, name, 0, 1, 0, "gpu-preferred", "gpu", features=request())
        screen.board.decided(Decided("router-1", "normal", (row,)), time.monotonic())
    assert screen.board.tally.counts.expected.routed == pytest.approx(0.05)


def test_one_that_was_lost_is_said_in_plain_words() -> None:
    screen = Screen()
    screen.look(*FLEET)
    screen.board.tally.counts.canaries_lost["cpu"] += 1
    (one,) = conditions(screen.board, now_ms(), time.monotonic())
    assert (one.level, one.name) == ("bad", "OverspillCanaryLost")
    assert "cpu 1" in one.meaning
