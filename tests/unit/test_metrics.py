"""Metrics are what they are declared to be, and no caller makes them grow."""

from __future__ import annotations

import re
import subprocess
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from executors.meter import Meter
from executors.work import Source, Work, read_work
from runtime.metrics import Metrics
from runtime.settings import MetricsSettings
from schemas.metrics import BY_ROLE, control, executor, process, router
from schemas.metrics.declaration import LABELS, OTHER, SERIES_MAX, Metric
from schemas.outcomes import Status
from tests.tools import tool
from tests.unit.executor_doubles import record

ROOT = Path(__file__).parents[2]
ALL = [metric for declared in BY_ROLE.values() for metric in declared]


def work(model: str, tenant: str) -> Work:
    sent = record(0, model_name=model, tenant=tenant)
    return read_work(Source("p.gpu", 0, 0), None, sent.value, sent.headers, express=False)


def series(metrics: Metrics) -> int:
    return sum(not line.startswith(b"#") for line in metrics.exposition().splitlines())


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_a_metric_says_what_it_means_and_what_to_do_about_it(metric: Metric) -> None:
    assert re.fullmatch(r"overspill_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
    assert metric.action.endswith(".")
    assert set(metric.labels) <= LABELS.keys()


def test_no_two_metrics_share_a_name_and_all_that_are_declared_are_listed() -> None:
    declared = {
        metric
        for module in (process, router, control, executor)
        for metric in vars(module).values()
        if isinstance(metric, Metric)
    }
    assert len({metric.name for metric in ALL}) == len(ALL) == len(declared)


def test_every_metric_is_fed_by_the_role_that_declares_it() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for package in ("runtime", "streams", "executors")
        for path in (ROOT / package).rglob("*.py")
    )
    modules = (process, router, control, executor)
    names = [n for m in modules for n, value in vars(m).items() if isinstance(value, Metric)]
    assert [name for name in names if not re.search(rf"\b{name}\b", sources)] == []


def test_fifty_thousand_model_and_tenant_names_leave_series_and_memory_flat() -> None:
    metrics = Metrics("executor", "1")
    meter = Meter(metrics, "gpu", MetricsSettings(models=("known",), tenants=("paying",)))
    unlisted = work("m", "t")

    def end(ended: Work) -> None:
        meter.ran(ended, 50.0, 0.05)
        meter.result(ended, Status.OK, 1.0)

    end(work("known", "paying"))
    end(unlisted)
    before = series(metrics)
    tracemalloc.start()
    for number in range(50_000):
        names = {"model_name": f"model-{number}", "tenant": f"tenant-{number}"}
        end(replace(unlisted, request=structs.replace(unlisted.request, **names)))
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert series(metrics) == before
    assert grown < 100_000
    others = metrics.counter(executor.MODEL_RESULTS, "gpu", OTHER, "ok")
    assert others._value.get() == 50_001
    assert metrics.counter(executor.TENANT_COST, "gpu", "paying")._value.get() == 0.05


@pytest.mark.parametrize("metric", [router.DECISIONS, control.LAG_RECORDS, executor.RUN_SECONDS])
def test_a_label_that_gets_any_value_by_mistake_is_capped_and_what_is_dropped_is_counted(
    metric: Metric,
) -> None:
    metrics = Metrics("router", "1")
    kinds = {"counter": metrics.counter, "gauge": metrics.gauge, "histogram": metrics.histogram}
    rest = metric.labels[1:]
    for number in range(SERIES_MAX + 7):
        kinds[metric.kind](metric, f"pool-{number}", *rest)
    dropped = metrics.counter(process.SERIES_DROPPED, metric.name)
    assert dropped._value.get() == 7
    (family,) = [f for f in metrics.registry.collect() if f.samples[0].labels.get("pool")]
    assert len({sample.labels["pool"] for sample in family.samples}) == SERIES_MAX
    # One that is forgotten makes room.
    metrics.forget(metric, "pool-0", *rest)
    kinds[metric.kind](metric, "pool-new", *rest)
    assert dropped._value.get() == 7


def test_the_exposition_of_all_metrics_is_clean_to_promtool() -> None:
    promtool = tool("promtool")
    metrics = Metrics("all", "1")
    for metric in ALL:
        labels = [f"any-{label}" for label in metric.labels]
        if metric.kind == "histogram":
            metrics.histogram(metric, *labels).observe(1)
        elif metric.kind == "gauge" and metric is not process.BUILD_INFO:
            metrics.gauge(metric, *labels).set(1)
        elif metric.kind == "counter":
            metrics.counter(metric, *labels).inc()
    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=metrics.exposition(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (checked.stdout + checked.stderr).decode() == ""
    assert checked.returncode == 0
