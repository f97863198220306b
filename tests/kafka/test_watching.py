"""A running system watched: the page and Prometheus say what every role says of itself."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from deploy.generate import ROOT
from deploy.observability.panels import ROWS
from deploy.observability.recording import RULES
from runtime.ports import free_port
from schemas.metrics import control, executor, router
from schemas.metrics.declaration import Metric
from tests.conftest import RunningKafka
from tests.kafka.system import System, ended_afterwards, get
from tests.tools import tool
from tests.waiting import in_time, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]

REQUESTS = 40
BAD = 3
WITHIN_S = 60.0
HAPPENED = {executor.ERRORS.name, executor.REFUSALS.name}
"""What has no series before it happens; here it does not."""


@contextmanager
def prometheus(folder: Path, targets: list[str]) -> Iterator[str]:
    """Run a Prometheus with our rules that asks these every second; yields its URL."""
    rules = [str(path) for path in sorted((ROOT / "deploy" / "prometheus").glob("overspill-*"))]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": rules,
        "scrape_configs": [{"job_name": "overspill", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    address = f"127.0.0.1:{free_port()}"
    command = [
        tool("prometheus"), f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}",
    ]  # fmt: skip
    with (
        (folder / "prometheus.log").open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out) as process,
    ):
        try:
            yield f"http://{address}"
        finally:
            process.kill()


async def asked(url: str, query: str) -> list[Any]:
    """Return the series that answer a query; none while Prometheus does not."""
    body = await get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    return list(json.loads(body)["data"]["result"]) if body else []


async def exported(system: System, *roles: str) -> list[Sample]:
    """Return all samples of these roles."""
    bodies = [await get(f"{system.roles[role].url}/metrics") for role in roles]
    families = [family for body in bodies for family in text_string_to_metric_families(body)]
    return [sample for family in families for sample in family.samples]


def sums(samples: list[Sample], metric: Metric, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the sums of a metric by these labels, those above 0."""
    found: Counter[tuple[str, ...]] = Counter()
    for sample in samples:
        if sample.name == metric.name:
            found[tuple(sample.labels[label] for label in labels)] += sample.value  # type: ignore[assignment]
    return {values: value for values, value in found.items() if value}


async def board(system: System) -> dict[str, Any]:
    body = await get(f"{system.roles['control'].url}/board")
    document: dict[str, Any] = json.loads(body) if body else {}
    return document


async def test_the_page_and_prometheus_say_what_every_roles_metrics_say(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    with ended_afterwards(System(kafka.bootstrap_servers, tmp_path)) as system:
        await system.create(2)
        system.start("control", "control", "--set=canary.model=m", "--set=canary.every_s=600")
        system.start("router", "router")
        nodes = [system.start_node(n, slots=2, run_ms=20) for n in ("gpu-1", "cpu-1")]
        await system.until_ready(system.roles["control"], system.roles["router"], *nodes)

        async def two_nodes() -> bool:
            return len((await board(system)).get("nodes", ())) == 2

        await until(two_nodes, in_time(WITHIN_S), poll_s=0.2)
        targets = [role.url.removeprefix("http://") for role in system.roles.values()]
        with prometheus(tmp_path, targets) as url:
            names = [f"r{number}" for number in range(REQUESTS)]
            await system.send(names[::2], latency_slo_ms=60_000)
            await system.send(names[1::2], priority="batch")
            await system.send(["late"], latency_slo_ms=50, expires_after_ms=1)
            async with system.producer() as producer:
                for _ in range(BAD):
                    await producer.send_and_wait(system.names.requests, b"{", key=b"bad")
            await assert_the_page_says_what_the_metrics_say(system)
            await assert_every_query_is_answered(url)


async def assert_the_page_says_what_the_metrics_say(system: System) -> None:
    async def all_is_counted() -> bool:
        shown = await board(system)
        ended = sum(shown["results"].values()) + sum(d["total"] for d in shown["dead_letters"])
        return bool(shown["pools"]) and ended >= REQUESTS + BAD and await canaries_are_back()

    async def canaries_are_back() -> bool:
        said = await exported(system, "control")
        sent = sums(said, control.CANARY_PRODUCED, "compute_type")
        return bool(sent) and sent == sums(said, control.CANARY_RECEIVED, "compute_type")

    await until(all_is_counted, in_time(WITHIN_S), poll_s=0.2)
    # Nothing moves any more: what is asked one after the other is of one moment.
    shown = await board(system)
    said = await exported(system, "control")
    routed, ran = await exported(system, "router"), await exported(system, "gpu-1", "cpu-1")
    for key, metric in (
        ("unfinished", control.LAG_RECORDS),
        ("queue_depth", control.QUEUE_DEPTH),
        ("slots", control.SLOTS),
        ("free_slots", control.FREE_SLOTS),
        ("nodes", control.LIVE_NODES),
    ):
        on_page = {(pool["name"],): pool[key] for pool in shown["pools"] if pool[key]}
        assert on_page == sums(said, metric, "pool"), key
    assert {(): shown["threshold"]} == sums(said, control.THRESHOLD)
    assert shown["undecided"] == 0
    assert sums(said, control.UNDECIDED) == {}
    decided = {(one["pool"], one["reason"]): one["total"] for one in shown["decisions"]}
    assert decided == sums(routed, router.DECISIONS, "pool", "reason")
    dead = {(one["category"],): one["total"] for one in shown["dead_letters"]}
    assert dead == sums(routed, router.DEAD_LETTERS, "category") == {("not-json",): BAD}
    assert sums(said, control.CANARY_LOST) == {}
    assert sums(ran, executor.CANARY_RUNS)[()] == sums(said, control.CANARY_PRODUCED)[()]
    results = {(status,): count for status, count in shown["results"].items()}
    assert results == sums(ran, executor.RESULTS, "status")
    objectives = sums(ran, executor.SLO, "met")
    missed = objectives.get(("false",), 0) + sums(routed, router.SLO_MISSED)[()]
    assert (shown["slo"]["met"], shown["slo"]["missed"]) == (objectives[("true",)], missed)
    assert shown["cost"]["total"] == pytest.approx(sum(sums(ran, executor.COST, "pool").values()))


async def assert_every_query_is_answered(url: str) -> None:
    queries = {q for panels in ROWS.values() for panel in panels for q, _ in panel.queries}
    queries |= {rule.name for rule in RULES}
    waiting = {q for q in queries if not any(name in q for name in HAPPENED)}

    async def answered() -> bool:
        for query in sorted(waiting):
            if await asked(url, query):
                waiting.discard(query)
        return not waiting

    try:
        await until(answered, in_time(WITHIN_S), poll_s=1.0)
    except AssertionError:
        print("without an answer:", waiting)  # noqa: T201  pytest shows it beside the failure
        raise

    assert await asked(url, "up == 0") == []
