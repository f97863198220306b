"""`overspill simulate`: its document, its table, its fleet files, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from deploy.cli import main
from lab.simulator.control import Second
from lab.simulator.fleet import read_fleet
from lab.simulator.measures import measure
from lab.simulator.run import Course, End, Ended
from schemas.errors import UsageError
from schemas.request import Priority
from streams.policy import policy
from tests.simulated import fleet, pool, request

TRACE = str(Path(__file__).parents[2] / "docs" / "examples" / "trace.jsonl")

GPU_POOL = """
[[pools]]
name = "gpu"
compute_type = "gpu"
nodes = 2
slots = 8
price_per_hour = 16.0
profile = "fixed:50"
"""
CPU_POOL = """
[[pools]]
name = "cpu"
compute_type = "cpu"
nodes = 1
slots = 16
price_per_hour = 3.2
profile = { fixed_ms = 400, jitter = 0.1 }
"""


def simulated(capsys: pytest.CaptureFixture[str], *arguments: str) -> bytes:
    assert main(["simulate", "--trace", TRACE, "--json", *arguments]) == 0
    return capsys.readouterr().out.encode()


def test_the_document_has_the_fields_of_the_contract_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = orjson.loads(simulated(capsys, "--policy", "overflow,gpu-only", "--seed", "5"))
    assert list(document) == ["trace", "requests", "seed", "policies", "bound"]
    assert (document["trace"], document["requests"]) == ("trace.jsonl", 400)
    assert (document["seed"], document["bound"]) == (5, None)
    assert list(document["policies"]) == ["overflow", "gpu-only"]
    for measures in document["policies"].values():
        assert list(measures) == [
            "metered_cost",
            "metered_cost_vs_gpu_only",
            "slo_attainment",
            "latency_ms",
            "overflow_share",
            "threshold",
        ]
        assert list(measures["latency_ms"]) == ["realtime", "normal", "batch"]
        assert all(list(one) == ["p50", "p99"] for one in measures["latency_ms"].values())
        assert list(measures["threshold"]) == ["min", "max", "changes"]
    gpu_only, overflow = (document["policies"][name] for name in ("gpu-only", "overflow"))
    assert gpu_only["metered_cost_vs_gpu_only"] == 1.0
    assert gpu_only["overflow_share"] == 0.0
    ratio = overflow["metered_cost"] / gpu_only["metered_cost"]
    assert overflow["metered_cost_vs_gpu_only"] == pytest.approx(ratio)


def test_one_seed_gives_the_same_bytes_and_another_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = simulated(capsys, "--policy", "overflow")
    assert simulated(capsys, "--policy", "overflow") == first
    assert simulated(capsys, "--policy", "overflow", "--seed", "2") != first


def test_the_bound_is_asked_for_and_below_what_gpus_alone_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = orjson.loads(simulated(capsys, "--policy", "gpu-only", "--bound"))
    assert list(document["bound"]) == ["metered_cost"]
    gpu_only = document["policies"]["gpu-only"]["metered_cost"]
    assert 0.5 * gpu_only < document["bound"]["metered_cost"] < 0.9 * gpu_only


def test_a_policy_is_measured_against_gpu_only_also_where_that_was_not_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = orjson.loads(simulated(capsys, "--policy", "overflow"))
    both = orjson.loads(simulated(capsys, "--policy", "overflow,gpu-only"))
    assert alone["policies"] == {"overflow": both["policies"]["overflow"]}


def test_people_get_a_table_with_the_fleets_price_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "--trace", TRACE, "--speed", "2"]) == 0
    shown, told = capsys.readouterr()
    for word in ("overflow", "gpu-only", "round-robin", "static-threshold", "objectives met"):
        assert word in shown
    assert max(map(len, shown.splitlines()[1:-1])) <= 80  # a terminal shows it unbroken
    assert "All slots cost a second: gpu 32, cpu 6.4, npu 4.8." in shown
    assert "reading" in told


def test_how_fast_it_was_is_said_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--trace", TRACE, "--json", "--policy", "overflow"]) == 0
    shown, told = capsys.readouterr()
    assert "a second" not in shown
    assert "Simulated 800 requests (2 policies, 400 each) in " in told.splitlines()[-1]


def test_beside_gpus_that_ran_nothing_no_share_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = '[[outages]]\nnode = "gpu-0"\nfrom_s = 0\nto_s = 100_000\n'
    one_gpu = GPU_POOL.replace("nodes = 2", "nodes = 1")
    file = str(written(tmp_path, one_gpu + CPU_POOL + away))
    policies = orjson.loads(simulated(capsys, "--fleet", file))["policies"]
    assert policies["gpu-only"]["metered_cost"] == 0.0
    assert policies["overflow"]["metered_cost"] > 0
    assert {one["metered_cost_vs_gpu_only"] for one in policies.values()} == {None}
    assert main(["simulate", "--trace", TRACE, "--fleet", file, "--policy", "overflow"]) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "gpu-only's" in line)
    assert row.split() == ["of", "gpu-only's", "-"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policy", "cheapest"], "no policy is named 'cheapest'"),
        (["--policy", ""], "no policy is named ''"),
        (["--speed", "0"], "--speed"),
        (["--speed", "nan"], "makes no time"),
        (["--speed", "1e-308"], "makes no time"),
        (["--fleet", "absent.toml"], "cannot read absent.toml"),
        (["--trace", "absent.csv"], "cannot read absent.csv"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", TRACE, *arguments]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def written(folder: Path, text: str) -> Path:
    file = folder / "fleet.toml"
    file.write_text(text)
    return file


def test_prices_by_the_hour_become_coefficients_of_a_slot(tmp_path: Path) -> None:
    read = read_fleet(written(tmp_path, GPU_POOL + CPU_POOL))
    assert [one.cost_coefficient for one in read.priced] == [1.0, pytest.approx(0.1)]
    assert read.prices_per_s == {"gpu": 16.0, "cpu": pytest.approx(1.6)}
    assert read.pools[1].profile.jitter == 0.1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pools", "is not TOML"),
        ("", "pools: Field required"),
        (CPU_POOL, "no pool named 'gpu'"),
        (GPU_POOL + GPU_POOL, "configured twice"),
        (GPU_POOL + CPU_POOL.replace("price_per_hour", "cost_coefficient"), "or every pool"),
        (GPU_POOL.replace("price_per_hour = 16.0", ""), "or every pool"),
        (GPU_POOL.replace("slots = 8", "slots = 0"), "pools.0.slots"),
        (GPU_POOL.replace('"fixed:50"', "{ jitter = 0.1 }"), "give fixed_ms"),
        (GPU_POOL.replace("fixed:50", "fixed:0"), "profile: what takes no time has no price"),
        (GPU_POOL.replace("16.0", "inf"), "pools.0.price_per_hour: Input should be a finite"),
        (GPU_POOL + "[delays]\nfetch_ms = inf", "delays.fetch_ms: Input should be a finite"),
        (GPU_POOL + "[delays]\nfetch_ms = nan", "delays.fetch_ms: Input should be"),
        (
            GPU_POOL + '[[outages]]\nnode = "gpu-1"\nfrom_s = 1\nto_s = inf',
            "outages.0.to_s: Input should be a finite number",
        ),
        (GPU_POOL + "[delays]\nfetch = 1", "delays.fetch"),
        (GPU_POOL + '[[outages]]\nnode = "gpu-2"\nfrom_s = 1\nto_s = 2', "they are gpu-0, gpu-1"),
        (GPU_POOL + '[[outages]]\nnode = "gpu-1"\nfrom_s = 2\nto_s = 2', "ends before it begins"),
        (
            GPU_POOL
            + '[[outages]]\nnode = "gpu-1"\nfrom_s = 1\nto_s = 3\n'
            + '[[outages]]\nnode = "gpu-1"\nfrom_s = 2\nto_s = 4',
            "overlap",
        ),
    ],
)
def test_a_fleet_that_does_not_fit_together_is_refused(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        read_fleet(written(tmp_path, text))


def test_measures_are_counted_from_how_requests_ended() -> None:
    def ended(
        number: int, end: End, where: str, latency_ms: float, slo_ms: float | None, cost: float
    ) -> Ended:
        asked = request(number, 0, Priority.NORMAL, slo_ms=slo_ms)
        return Ended(asked, end, where, f"{where}-0", 0.0, latency_ms, cost)

    course = Course(
        [
            ended(0, End.RAN, "gpu", 100, 100, 1.0),
            ended(1, End.RAN, "gpu", 101, 100, 1.0),
            ended(2, End.RAN, "cpu", 900, None, 0.5),
            ended(3, End.EXPIRED, "gpu", 5, 100, 0.0),
        ],
        [Second(0, 9, 0, 9), Second(1, 9, 0, 8), Second(2, 0, 11, 9)],
    )
    hardware = fleet(pool("gpu"), pool("cpu", cost=0.1))
    found = measure(course, hardware, policy("overflow"))
    assert found.metered_cost == 2.5
    assert found.slo_attainment == pytest.approx(1 / 3)
    assert found.latency_ms == {
        "realtime": (None, None),
        "normal": (101, 900),
        "batch": (None, None),
    }
    assert found.overflow_share == 0.25
    assert found.threshold == (8, 10, 3)
    assert found.unserved == 1
    fixed = measure(course, hardware, policy("static-threshold"))
    assert fixed.threshold == (10, 10, 0)
