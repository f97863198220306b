"""From a rule that fires to a pager that rings: Prometheus, Alertmanager and our examples."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from runtime.ports import LOOPBACK, free_port
from tests.tools import FOLDER, tool
from tests.waiting import in_time, until

pytestmark = pytest.mark.timeout(300)

TEMPLATES = Path("/usr/share/prometheus/alertmanager/default.tmpl")
EXAMPLES = Path(__file__).parents[2] / "deploy" / "prometheus"
WITHIN_S = 60.0


def example(name: str) -> Any:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def written(path: Path, document: Any) -> Path:
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@asynccontextmanager
async def pager(heard: list[tuple[str, str]]) -> AsyncIterator[str]:
    """Hear of alerts as (path, name)."""

    async def hear(request: web.Request) -> web.Response:
        told = await request.json()
        heard.extend((request.path, one["labels"]["alertname"]) for one in told["alerts"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/{receiver}", hear)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, LOOPBACK, port).start()
    try:
        yield f"{LOOPBACK}:{port}"
    finally:
        await runner.cleanup()


@contextmanager
def running(log: Path, *command: str) -> Iterator[Callable[[], bool]]:
    """Run a program; what it yields says that it still runs, or fails with what it logged."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)

    def runs() -> bool:
        assert process.poll() is None, log.read_text(errors="replace")
        return True

    try:
        yield runs
    finally:
        process.kill()
        process.wait()


def alertmanager() -> str:
    """Return the path of Alertmanager; skip where Debian's, unpacked, lacks its templates."""
    found = Path(tool("prometheus-alertmanager"))
    if found.is_relative_to(FOLDER) and not TEMPLATES.exists():
        pytest.skip(f"Alertmanager wants {TEMPLATES}: `make tools` puts it there for root")
    return str(found)


async def test_a_rule_that_fires_reaches_the_receiver_of_its_severity(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    manager = f"{LOOPBACK}:{free_port()}"
    async with pager(heard) as receiver:
        routing = yaml.safe_dump(example("alertmanager.yml") | {"global": {}})
        routing = routing.replace("127.0.0.1:9199", receiver).replace(
            "group_wait: 30s", "group_wait: 0s"
        )
        (tmp_path / "alertmanager.yml").write_text(routing, encoding="utf-8")
        rules = [
            {"alert": f"Overspill{name}", "expr": "vector(1)", "labels": {"severity": severity}}
            for name, severity in (("Woken", "page"), ("Filed", "ticket"))
        ]
        written(tmp_path / "rules.yaml", {"groups": [{"name": "always", "rules": rules}]})
        told = example("prometheus.yml") | {"rule_files": ["rules.yaml"], "scrape_configs": []}
        told["global"] = {"evaluation_interval": "1s"}
        told["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [manager]}]
        config = written(tmp_path / "prometheus.yml", told)
        expected = {("/page", "OverspillWoken"), ("/ticket", "OverspillFiled")}
        with (
            running(
                tmp_path / "alertmanager.log", alertmanager(),
                f"--config.file={tmp_path / 'alertmanager.yml'}", f"--web.listen-address={manager}",
                f"--storage.path={tmp_path / 'alertmanager'}", "--cluster.listen-address=",
            ) as manages,
            running(
                tmp_path / "prometheus.log", tool("prometheus"), f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address={LOOPBACK}:{free_port()}", "--rules.alert.resend-delay=1s",
            ) as rules_run,
        ):  # fmt: skip
            await until(
                lambda: manages() and rules_run() and expected <= {*heard},
                in_time(WITHIN_S),
                poll_s=0.1,
            )
    assert {path for path, name in heard if name == "OverspillWoken"} == {"/page"}
