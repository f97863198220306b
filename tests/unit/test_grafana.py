"""The Grafana dashboard asks for what is declared, in queries that Prometheus reads."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from deploy.generate import ROOT
from deploy.observability.panels import ROWS
from deploy.observability.recording import RULES
from schemas.metrics import BY_ROLE
from tests.tools import tool

QUERIES = [expr for panels in ROWS.values() for panel in panels for expr, _ in panel.queries]


def test_every_query_is_promql(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(QUERIES)]
    file = tmp_path / "queries.yaml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    command = [tool("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_query_asks_for_what_is_declared() -> None:
    declared = {metric.name for metrics in BY_ROLE.values() for metric in metrics}
    declared |= {rule.name for rule in RULES}
    asked = {n for expr in QUERIES for n in re.findall(r"overspill[a-z0-9_:]+", expr)}
    assert asked
    assert {name.removesuffix("_bucket") for name in asked} <= declared


def test_grafana_can_be_given_it_by_file() -> None:
    made = json.loads((ROOT / "deploy" / "grafana" / "overspill.json").read_text("utf-8"))
    assert made["uid"] == "overspill"
    assert "__inputs" not in made
    graphs = [panel for panel in made["panels"] if panel["type"] == "timeseries"]
    assert len(graphs) == sum(map(len, ROWS.values()))
    for graph in graphs:
        assert graph["description"]
        assert graph["datasource"]["uid"] == "${datasource}"
        letters = [target["refId"] for target in graph["targets"]]
        assert len(set(letters)) == len(letters)
        assert all(letters)


def test_the_example_of_a_configuration_is_one() -> None:
    config = ROOT / "deploy" / "prometheus" / "prometheus.yml"
    command = [tool("promtool"), "check", "config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
