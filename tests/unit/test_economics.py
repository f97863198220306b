"""What the lab says of cost: the arithmetic by hand, the smallest fleet, tables, plots, a page."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from deploy.cli import main
from lab.economics import Cell, Possible, possible_saving, second_half, table_of
from lab.experiments import greedy_and_optimum, patience
from lab.fleet_search import owed_s, smallest_fleet
from lab.simulator.measures import Measures, Percentiles, Thresholds
from lab.simulator.run import Course, End, Ended
from lab.simulator.traces import Arrival
from schemas.pools import CPU, GPU
from schemas.request import Priority
from streams.policy import policy
from tests.simulated import fleet, pool, request

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
PNG = b"\x89PNG"

HARDWARE = fleet(pool(GPU, slots=2, run_ms=1_000), pool(CPU, slots=4, run_ms=6_000, cost=0.1))
"""A request costs 1.0 on the gpu and 0.6 on the cpu."""


def test_the_arithmetic_counts_what_a_cheaper_type_can_meet() -> None:
    requests = [
        request(0, 0),
        request(1, 0, Priority.NORMAL, slo_ms=7_000),
        request(2, 0, Priority.NORMAL, slo_ms=6_010),  # in hindsight only: the way takes 25 ms
        request(3, 0, Priority.NORMAL, slo_ms=5_000),
        request(4, 0, Priority.REALTIME, slo_ms=60_000),
    ]
    assert possible_saving(HARDWARE, requests) == pytest.approx((2 / 5, 2 * 0.4 / 5, 3 * 0.4 / 5))


def test_only_what_was_not_tuned_on_is_reported() -> None:
    arrivals = [Arrival(number * 60_000.0, 10, 10) for number in range(10)]
    assert [one.at_ms for one in second_half(arrivals)] == [0, 60_000, 120_000, 180_000, 240_000]
    assert len(second_half(arrivals, minutes=2)) == 2


def test_the_smallest_fleet_is_the_cheapest_on_which_objectives_are_met() -> None:
    # In 1.5 s one request that only a gpu can meet, and one that a cpu can meet too.
    requests = [
        request(
            2 * number + loose, number * 1_500.0, Priority.NORMAL, slo_ms=1_900 + 8_100 * loose,
            key_hash=number << 20,
        )
        for number in range(100)
        for loose in (0, 1)
    ]  # fmt: skip
    hardware = fleet(pool(GPU, run_ms=1_000), pool(CPU, slots=3, run_ms=6_000, cost=0.1))
    alone = smallest_fleet(hardware, requests, policy("gpu-only"), 0.95)
    mixed = smallest_fleet(hardware, requests, policy("predictive"), 0.95)
    assert alone is not None
    assert mixed is not None
    assert (alone.nodes, alone.cost_per_s) == ({GPU: 2, CPU: 0}, 2.0)
    assert (mixed.nodes, mixed.cost_per_s) == ({GPU: 1, CPU: 1}, pytest.approx(1.3))
    assert mixed.attainment >= 0.95


def test_a_fleet_that_only_puts_off_is_none() -> None:
    ended = [
        Ended(request(number, number * 500.0), End.RAN, CPU, "cpu-0", 0.0, 100.0, 0.1)
        for number in range(3)
    ]
    late = Ended(request(3, 1_000.0), End.RAN, CPU, "cpu-0", 1_000.0, 2_000.0, 0.2)
    one_slot = fleet(pool(GPU), pool(CPU, cost=0.1))
    assert owed_s(one_slot, Course(ended, [])) == pytest.approx(0.1)
    assert owed_s(one_slot, Course([*ended, late], [])) == pytest.approx(2.1)


def cell(seed: int, saved: float, attainment: float = 1.0) -> Cell:
    def measures(cost: float, met: float) -> Measures:
        return Measures(cost, met, {"batch": Percentiles(1.0, 2.0)}, 0.5, Thresholds(2, 10, 3), 0)

    measured = {
        "gpu-only": measures(100.0, 1.0),
        "overflow": measures(95.0, 1.0),
        "predictive": measures(100.0 * (1 - saved), attainment),
    }
    return Cell("t", "f", seed, Possible(0.8, 0.3, 0.32), 69.0, True, measured)


def test_the_table_says_where_what_is_asked_is_missed() -> None:
    assert "met in all 2" in table_of([cell(1, 0.28), cell(2, 0.30)])
    assert "**29.0 ± 1.4 %**" in table_of([cell(1, 0.28), cell(2, 0.30)])
    assert "missed: saving in 1 of 2 |" in table_of([cell(1, 0.28), cell(2, 0.26)])
    assert "missed: overflow in 1 of 2 |" in table_of([cell(1, 0.28), cell(2, 0.28, 0.999)])
    assert "missed: overflow in 1, attainment in 1 of 1 |" in table_of([cell(1, 0.28, 0.994)])
    assert "missed: saving in 1, bound in 1, overflow in 1 of 1 |" in table_of([cell(1, 0.04)])


def test_one_command_writes_tables_plots_and_a_page_that_needs_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.experiments.optimum.WHOLE_REQUESTS", 20)
    monkeypatch.setattr("lab.fleet_search.OTHER_NODES_MAX", 1)
    monkeypatch.setattr("lab.fleet_search.GPU_NODES_MAX", 4)
    monkeypatch.setattr("lab.report.ALL", (greedy_and_optimum, patience))
    command = ["lab", "--trace", str(EXAMPLES / "trace.csv"), "--trace",
               str(EXAMPLES / "trace.jsonl"), "--seeds", "1", "--minutes", "0.1",
               "--out", str(tmp_path)]  # fmt: skip
    assert main(command) == 0
    assert "report.html" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    tables = (tmp_path / "tables.md").read_text()
    for words in ("What patience saves", "Greedy and optimum", "smallest fleet"):
        assert words in page
        assert words in tables
    assert page.count("data:image/png;base64,") == 4
    assert 'src="http' not in page
    assert all(file.read_bytes().startswith(PNG) for file in tmp_path.glob("*.png"))
    cells = [orjson.loads(line) for line in (tmp_path / "cells.jsonl").read_bytes().splitlines()]
    assert [(one["trace"], one["fleet"]) for one in cells] == [("trace", "default")]


def test_a_fleet_is_named_with_a_speed(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "fleet-article.toml")
    assert main(["lab", "--trace", str(EXAMPLES / "trace.csv"), "--fleet", f"{file}@fast"]) == 2
    assert "FILE@SPEED" in capsys.readouterr().err


def test_simulate_searches_the_smallest_fleet(capsys: pytest.CaptureFixture[str]) -> None:
    trace = str(EXAMPLES / "trace.csv")
    command = ["simulate", "--trace", trace, "--policy", "gpu-only", "--search-fleet", "0.9"]
    assert main([*command, "--json"]) == 0
    fleets = orjson.loads(capsys.readouterr().out)["fleets"]
    assert list(fleets) == ["gpu-only"]
    assert fleets["gpu-only"]["attainment"] >= 0.9
    assert fleets["gpu-only"]["cost_per_s"] == 8.0 * fleets["gpu-only"]["nodes"]["gpu"]
