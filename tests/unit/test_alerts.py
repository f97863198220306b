"""Each alert fires when it should and is silent when it should, by promtool, and is explained.

A case is a system at rest in which a few series are otherwise; promtool runs the rule files on it.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from deploy.generate import ROOT
from deploy.observability.alerts import ALERTS
from deploy.observability.recording import RULES
from schemas.metrics import BY_ROLE
from tests.tools import tool

FILES = ("overspill-recording.yaml", "overspill-alerts.yaml")
SHORT_S, LONG_S = 30, 120
"""Between two samples, and two evaluations: of cases of minutes, and of those of hours."""
LONG_M = 60
DECIDED = 'overspill_router_decisions_total{pool="gpu",reason="gpu-preferred",mode="normal"}'
CPU_WAITS = {
    'overspill_live_nodes{pool="cpu"}': "0x{n}",
    'overspill_unfinished_records{pool="cpu"}': "1x{n}",
}

AT_REST = {
    'overspill_ready{role="control"}': "1x{n}",
    'overspill_ready{role="router"}': "1x{n}",
    "overspill_control_active": "1x{n}",
    'overspill_router_mode{mode="normal"}': "1x{n}",
    'overspill_router_mode{mode="stale"}': "0x{n}",
    'overspill_router_mode{mode="blind"}': "0x{n}",
    'overspill_router_consumed_total{source="requests"}': "0+300x{n}",
    DECIDED: "0+300x{n}",
    'overspill_router_dead_letters_total{category="not-json"}': "0x{n}",
    "overspill_router_slo_missed_total": "0x{n}",
    "overspill_undecided_records": "0x{n}",
    'overspill_unfinished_records{pool="gpu"}': "2x{n}",
    'overspill_unfinished_records{pool="cpu"}': "0x{n}",
    'overspill_oldest_unfinished_seconds{pool="gpu"}': "1x{n}",
    'overspill_oldest_unfinished_seconds{pool="cpu"}': "0x{n}",
    'overspill_finish_rate_records{pool="gpu"}': "10x{n}",
    'overspill_finish_rate_records{pool="cpu"}': "0x{n}",
    'overspill_live_nodes{pool="gpu"}': "2x{n}",
    'overspill_live_nodes{pool="cpu"}': "1x{n}",
    'overspill_down_nodes{pool="gpu"}': "0x{n}",
    'overspill_slow_nodes{pool="gpu"}': "0x{n}",
    "overspill_lag_holes": "0x{n}",
    'overspill_queue_depth_records{pool="gpu"}': "0x{n}",
    "overspill_threshold_records": "10x{n}",
    'overspill_free_slots{pool="gpu"}': "6x{n}",
    'overspill_free_slots{pool="cpu"}': "4x{n}",
    'overspill_executor_slo_total{pool="gpu",met="true"}': "0+30x{n}",
    'overspill_executor_slo_total{pool="gpu",met="false"}': "0x{n}",
    'overspill_executor_results_total{pool="gpu",status="ok"}': "0+300x{n}",
    'overspill_executor_results_total{pool="gpu",status="error"}': "0x{n}",
    'overspill_assignments_total{role="router"}': "3x{n}",
    'overspill_metric_series_dropped_total{metric="overspill_x"}': "0x{n}",
    'overspill_canary_lost_total{compute_type="gpu"}': "0x{n}",
    'overspill_canary_received_total{compute_type="gpu",status="ok"}': "0+1x{n}",
    'overspill_canary_received_total{compute_type="gpu",status="expired"}': "0x{n}",
}
GPU = '{pool="gpu"}'
SLO_MISSED = 'overspill_executor_slo_total{pool="gpu",met="false"}'
CANARY = "OverspillCanaryLost"
FAST = {"OverspillSLOBurnFast", "OverspillSLOBurnMedium", "OverspillSLOBurnSlow"}


class Case(NamedTuple):
    """What is otherwise, and which alerts fire after so many minutes."""

    otherwise: dict[str, str]
    after_m: int
    fires: set[str]


def overflowing(cpu: str = "4x{n}") -> dict[str, str]:
    return {
        f"overspill_queue_depth_records{GPU}": "30x{n}",
        f"overspill_free_slots{GPU}": "0x{n}",
        'overspill_free_slots{pool="cpu"}': cpu,
    }


def growing(by: int, age_s: int) -> dict[str, str]:
    return {
        f"overspill_unfinished_records{GPU}": f"0+{by}x{{n}}",
        f"overspill_oldest_unfinished_seconds{GPU}": f"{age_s}x{{n}}",
    }


CASES = [
    Case({}, 30, set()),
    # 1 in 4 of all requests with an objective: 25 times the budget, seen in every window.
    Case({SLO_MISSED: "0+10x{n}"}, 90, FAST),
    # 1 in 11: nine times; too slow for the fast one.
    Case({SLO_MISSED: "0+3x{n}"}, 420, {"OverspillSLOBurnMedium", "OverspillSLOBurnSlow"}),
    Case({SLO_MISSED: "0+1x{n}"}, 420, {"OverspillSLOBurnSlow"}),
    # Misses at the router alone, and so few requests that nobody is woken.
    Case(
        {
            'overspill_executor_slo_total{pool="gpu",met="true"}': "0x{n}",
            "overspill_router_slo_missed_total": "0+1x{n}",
        },
        40,
        set(),
    ),
    Case({"overspill_router_slo_missed_total": "0+10x{n}"}, 90, FAST),
    Case({f"overspill_oldest_unfinished_seconds{GPU}": "301x{n}"}, 10, {"OverspillLagAgeHigh"}),
    Case({f"overspill_oldest_unfinished_seconds{GPU}": "299x{n}"}, 30, set()),
    Case(growing(by=5, age_s=90), 40, {"OverspillLagGrowing"}),
    Case(growing(by=5, age_s=30), 40, set()),
    Case(growing(by=0, age_s=90), 40, set()),
    Case({f"overspill_finish_rate_records{GPU}": "0x{n}"}, 4, {"OverspillConsumerStalled"}),
    Case({f"overspill_finish_rate_records{GPU}": "0x2 9x{n}"}, 4, set()),
    Case(
        {f"overspill_live_nodes{GPU}": "0x{n}", f"overspill_finish_rate_records{GPU}": "0x{n}"},
        2,
        {"OverspillPoolDown"},
    ),
    # A pool without work and without nodes is one that nobody deployed.
    Case({'overspill_live_nodes{pool="cpu"}': "0x{n}"}, 30, set()),
    Case(CPU_WAITS, 2, {"OverspillPoolDown"}),
    Case({f"overspill_down_nodes{GPU}": "1x{n}"}, 3, {"OverspillNodeDown"}),
    Case({f"overspill_down_nodes{GPU}": "1 0x{n}"}, 10, set()),
    Case({f"overspill_slow_nodes{GPU}": "1x{n}"}, 7, {"OverspillNodeSlow"}),
    Case({f"overspill_slow_nodes{GPU}": "1x4 0x{n}"}, 9, set()),
    Case({"overspill_lag_holes": "1x{n}"}, 3, {"OverspillHole"}),
    Case({'overspill_router_mode{mode="blind"}': "1x{n}"}, 3, {"OverspillSignalsStale"}),
    Case({'overspill_router_mode{mode="stale"}': "1 0x{n}"}, 3, set()),
    Case({"overspill_control_active": "0x{n}"}, 3, {"OverspillControlSilent"}),
    Case({"overspill_control_active": "1 _x{n}"}, 20, {"OverspillControlSilent"}),
    Case(
        {
            "overspill_undecided_records": "5x{n}",
            'overspill_router_consumed_total{source="requests"}': "7x{n}",
        },
        4,
        {"OverspillRoutersDead"},
    ),
    Case({"overspill_undecided_records": "500x{n}"}, 20, set()),
    Case(
        {'overspill_ready{role="control"}': "0x{n}", 'overspill_ready{role="router"}': "0x{n}"},
        3,
        {"OverspillKafkaAway"},
    ),
    Case({'overspill_ready{role="router"}': "0x{n}"}, 20, set()),
    Case(overflowing(cpu="0x{n}"), 8, {"OverspillSaturated"}),
    Case(overflowing(), 30, set()),
    Case(
        {f"overspill_queue_depth_records{GPU}": " ".join(["30 0"] * 120)}, 50, {"OverspillFlapping"}
    ),
    Case({f"overspill_queue_depth_records{GPU}": " ".join(["30x9 0x9"] * 12)}, 50, set()),
    Case(
        {'overspill_router_dead_letters_total{category="not-json"}': "0+30x{n}"},
        15,
        {"OverspillDeadLettersRising"},
    ),
    Case({'overspill_router_dead_letters_total{category="not-json"}': "0+1x{n}"}, 30, set()),
    Case(
        {'overspill_executor_results_total{pool="gpu",status="error"}': "0+30x{n}"},
        15,
        {"OverspillErrorsHigh"},
    ),
    Case({'overspill_executor_results_total{pool="gpu",status="error"}': "0+3x{n}"}, 30, set()),
    Case(
        {'overspill_assignments_total{role="router"}': "0+1x{n}"}, 20, {"OverspillRebalanceStorm"}
    ),
    Case({'overspill_assignments_total{role="router"}': "0x9 4x{n}"}, 20, set()),
    Case({'overspill_canary_lost_total{compute_type="gpu"}': "0x3 1x{n}"}, 6, {CANARY}),
    Case(
        {'overspill_canary_received_total{compute_type="gpu",status="expired"}': "0+1x{n}"},
        9,
        {CANARY},
    ),
    Case(
        {'overspill_canary_received_total{compute_type="gpu",status="expired"}': "0x5 1x{n}"},
        20,
        set(),
    ),
    Case(
        {'overspill_metric_series_dropped_total{metric="overspill_x"}': "0+1x{n}"},
        10,
        {"OverspillSeriesDropped"},
    ),
]  # fmt: skip


def interval_s(case: Case) -> int:
    return LONG_S if case.after_m >= LONG_M else SHORT_S


def as_promtool_has_it(case: Case) -> dict[str, Any]:
    """Return the case as a test of promtool's; the firing alerts are asked of Prometheus itself."""
    every_s = interval_s(case)
    points = case.after_m * 60 // every_s + 1
    series = {**AT_REST, **case.otherwise}
    return {
        "interval": f"{every_s}s",
        "name": f"{case.otherwise} fires {sorted(case.fires)}",
        "input_series": [
            {"series": name, "values": values.replace("{n}", str(points))}
            for name, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{case.after_m}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}"}}', "value": 1}
                    for alert in sorted(case.fires)
                ],
            }
        ],
    }


@pytest.mark.timeout(900)  # some seconds, on a machine with time
def test_alerts_fire_when_they_should_and_are_silent_when_they_should(tmp_path: Path) -> None:
    files = []
    for every_s in (SHORT_S, LONG_S):
        document = {
            "rule_files": [str(ROOT / "deploy" / "prometheus" / file) for file in FILES],
            "evaluation_interval": f"{every_s}s",
            "tests": [as_promtool_has_it(case) for case in CASES if interval_s(case) == every_s],
        }
        files.append(tmp_path / f"every-{every_s}.yaml")
        files[-1].write_text(json.dumps(document))  # JSON is YAML
    command = [tool("promtool"), "test", "rules", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    assert {alert.name for alert in ALERTS} == set().union(*(case.fires for case in CASES))


@pytest.mark.parametrize("file", FILES)
def test_rule_files_are_clean_to_promtool(file: str) -> None:
    path = ROOT / "deploy" / "prometheus" / file
    command = [tool("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("severity", "receiver"), [("page", "pager"), ("ticket", "tickets")])
def test_the_example_of_routing_is_taken_and_wakes_nobody_for_a_ticket(
    severity: str, receiver: str
) -> None:
    file = str(ROOT / "deploy" / "prometheus" / "alertmanager.yml")
    command = [tool("amtool"), "check-config", file]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    command = [tool("amtool"), "config", "routes", "test", f"--config.file={file}"]
    labels = (f"severity={severity}", "alertname=OverspillNodeDown")
    routed = subprocess.run([*command, *labels], capture_output=True, text=True, check=False)
    assert routed.stdout.split() == [receiver], routed.stderr


def test_the_example_of_routing_names_alerts_that_exist() -> None:
    text = (ROOT / "deploy" / "prometheus" / "alertmanager.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"Overspill[\w.*]+", text))
    assert named
    for pattern in named:
        assert any(re.fullmatch(pattern, alert.name) for alert in ALERTS), pattern


def test_rules_and_cases_ask_only_for_what_is_declared() -> None:
    declared = {metric.name for metrics in BY_ROLE.values() for metric in metrics}
    recorded = {rule.name for rule in RULES}
    texts = [rule.expr for rule in RULES] + [alert.expr for alert in ALERTS] + list(AT_REST)
    asked = {name for text in texts for name in re.findall(r"overspill[a-z0-9_:]+", text)}
    assert {name.removesuffix("_bucket") for name in asked} - declared - recorded == {"overspill_x"}


def test_each_alert_has_an_entry_in_the_runbook_that_says_what_to_do() -> None:
    runbook = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        _, _, entry = runbook.partition(f"\n## {alert.name}\n")
        entry = entry.partition("\n## ")[0]
        assert "\n1. " in entry
        assert alert.meaning in entry
