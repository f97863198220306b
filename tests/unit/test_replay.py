"""`overspill replay`: mismatches, other policies, and what cannot be judged."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from deploy.cli import main
from schemas.decisions import DecisionRow, DecisionsRecord, ViewInputs, encode_decisions
from schemas.features import Features
from schemas.message import encode
from schemas.metadata import RouterCounts
from schemas.pools import DEFAULT_POOLS
from schemas.registry import pack
from schemas.request import Priority
from streams.policy import Decision
from streams.policy.expectation import Expected, expected
from streams.replay.compare import Sums, blocks_of
from tests.fleet import NOW_MS, decide, fleet, full, node, request, snapshot

FREE = [node("gpu-1"), node("cpu-1", latency_ms=100.0), node("npu-1")]
BUSY = [full("gpu-1"), node("cpu-1", latency_ms=100.0), node("npu-1", unfinished=8)]
PRICES = {pool.name: pool.cost_coefficient for pool in DEFAULT_POOLS}


def record(
    sequence: int, features: Iterable[Features], nodes: list[Any] | None = None, **view: Any
) -> DecisionsRecord:
    """Return what a router writes that decides these requests on this fleet by `overflow`."""
    seen = fleet(*(nodes or FREE), pools=DEFAULT_POOLS, router="r")
    told = snapshot(nodes or FREE).model_copy(update={"number": sequence})
    rows = []
    for number, each in enumerate(features):
        made = decide(seen, each)
        seen.add(made)
        rows.append(
            DecisionRow(
                0, number, f"r{sequence}-{number}", 1, 1, 0, made.reason.value, made.pool,
                made.express, made.node, made.partition, each, made.released,
            )
        )  # fmt: skip
    digest, registered = pack({})
    widths = tuple((name, len(pool.unfinished)) for name, pool in seen.pools.items())
    inputs = ViewInputs(
        (1, sequence), 0.0, (), encode(told), 0, widths, DEFAULT_POOLS, digest, registered
    )
    return DecisionsRecord(
        "r", sequence, 0, (0, -1), (len(rows), -1), (RouterCounts({}), None), "overflow", "normal",
        10, NOW_MS, inputs._replace(**view), rows,
    )  # fmt: skip


def replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], records: list[DecisionsRecord], *flags: str
) -> tuple[int, Any]:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(b"\n".join(encode_decisions(each) for each in records))
    code = main(["replay", "--from", str(file), "--json", *flags])
    return code, orjson.loads(capsys.readouterr().out)


def test_a_decision_that_comes_out_otherwise_is_shown_with_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = record(1, [request()] * 3)
    forged = record(2, [request()] * 3)
    rows = list(forged.rows)
    rows[1] = DecisionRow(0, 1, "odd", 1, 1, 0, "overflow", "cpu", False, "cpu-1", 0, request())
    code, told = replayed(tmp_path, capsys, [good, forged._replace(rows=rows)])
    assert (code, told["decisions"], told["same"]) == (1, 6, 5)
    first = told["first_mismatch"]
    assert (first["id"], first["router"], first["sequence"]) == ("odd", "r", 2)
    assert (first["recorded"]["pool"], first["replayed"]["pool"]) == ("cpu", "gpu")
    assert main(["replay", "--from", str(tmp_path / "dump.jsonl")]) == 1
    printed = capsys.readouterr().out
    assert "* pool: recorded 'cpu', replayed 'gpu'" in printed
    assert "requests 0 offset 1, router r seq 2" in printed


def test_what_the_records_do_not_tell_is_counted_and_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [request()] * 2
    unknown = {
        "written by a release whose records do not say enough": record(1, asked, pools=()),
        "their snapshot was stated before the first record that is read": record(
            2, asked, body=None
        ),
        "their model registry is not stated in what is read": record(3, asked, registry=7),
        "they state a snapshot or a registry that does not read": record(4, asked, body=b"{}"),
        "policy x is not known here": record(5, asked)._replace(policy="x"),
    }
    code, told = replayed(tmp_path, capsys, [record(9, asked), *unknown.values()])
    assert (code, told["same"], told["skipped"]) == (0, 2, dict.fromkeys(unknown, 2))
    code, told = replayed(tmp_path, capsys, list(unknown.values()))
    assert (code, told["decisions"]) == (1, 0)  # nothing was shown to be the same


def test_another_policy_is_judged_on_the_fleet_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # gpu-1 has 10 in its queue: overflow sends all to cpu-1 at 100 ms, gpu-only waits for it.
    records = [record(n, [request(slo_ms=105.0)] * 4, BUSY) for n in range(1, 6)]
    code, told = replayed(tmp_path, capsys, records, "--policy", "gpu-only")
    assert (code, told["decisions"], told["otherwise"]) == (0, 20, 20)
    assert told["moves"] == [{"from": "cpu", "to": "gpu", "decisions": 20}]
    assert told["cost"]["recorded"] == pytest.approx(20 * 0.1 * 0.1)
    assert told["cost"]["replayed"] == pytest.approx(20 * 1.0 * 0.05)
    assert told["cost"]["change"]["estimate"] == pytest.approx(4.0)
    objectives = told["objectives"]
    assert (objectives["met_recorded"], objectives["met_replayed"]) == (20, 0)
    assert main(["replay", "--from", str(tmp_path / "dump.jsonl"), "--policy", "gpu-only"]) == 0
    assert "cpu -> gpu: 20" in capsys.readouterr().out


def test_another_threshold_and_other_prices_change_choices_and_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record(n, [request()], BUSY) for n in range(1, 4)]
    _, told = replayed(tmp_path, capsys, records, "--threshold", "11")
    assert told["moves"] == [{"from": "cpu", "to": "gpu", "decisions": 3}]
    _, told = replayed(tmp_path, capsys, records, "--prices", "cpu=0.2")
    assert told["otherwise"] == 0
    assert told["cost"]["recorded"] == pytest.approx(3 * 0.1 * 0.1)
    assert told["cost"]["recorded_at_these_prices"] == pytest.approx(3 * 0.2 * 0.1)
    assert told["cost"]["change"] == {"estimate": 0.0, "low": 0.0, "high": 0.0}


def test_the_interval_is_as_wide_as_stretches_of_time_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the stretches move all, half nothing: the mean is sure within what that leaves."""
    records = [record(n, [request()] * 2, BUSY if n % 2 else FREE) for n in range(1, 101)]
    _, told = replayed(tmp_path, capsys, records, "--policy", "gpu-only")
    change = told["cost"]["change"]
    assert change["low"] < change["estimate"] < change["high"]
    assert change["high"] - change["low"] < 1.0
    assert replayed(tmp_path, capsys, records, "--policy", "gpu-only")[1] == told


def test_a_pool_that_is_not_priced_and_a_file_that_is_not_there_are_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--prices", "cpu"]) == 2
    assert "as cpu=0.05" in capsys.readouterr().err
    assert main(["replay", "--policy", "nobody"]) == 2
    assert main(["replay", "--from", str(tmp_path / "none")]) == 2
    assert "cannot read" in capsys.readouterr().err


def test_a_dump_that_is_none_is_named_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = encode_decisions(record(1, [request()]))
    for name, content, says in (
        ("odd", good + b"\nodd", "odd, line 2: "),
        ("cut.gz", gzip.compress(good)[:-9], "cut.gz is not whole"),
        ("torn.gz", gzip.compress(good)[:10] + b"\xff" * 30, "torn.gz is not whole"),
    ):
        file = tmp_path / name
        file.write_bytes(content)
        assert main(["replay", "--from", str(file)]) == 2
        assert says in capsys.readouterr().err


def test_a_dump_is_not_written_over_the_one_that_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(encode_decisions(record(1, [request()])))
    before = file.read_bytes()
    assert main(["replay", "--from", str(file), "--dump", f"{tmp_path}/./dump.jsonl"]) == 2
    assert "would write over" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_no_decision_is_not_told_as_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_bytes(b"")
    assert main(["replay", "--from", str(file)]) == 0
    assert capsys.readouterr().out == "there is no decision to make again\n"


def test_blocks_hold_everything_once() -> None:
    stretches = [Sums(before=float(number)) for number in range(1001)]
    blocks = blocks_of(stretches)
    assert len(blocks) == 200
    assert sum(block.before for block in blocks) == sum(range(1001))
    assert blocks_of([]) == []


def test_a_choice_is_expected_to_take_the_wait_and_a_mean_run_of_its_node() -> None:
    view = fleet(*BUSY)
    gpu = Decision("fallback", 10, "gpu", "gpu-1", 0)  # type: ignore[arg-type]
    # 18 unfinished on 8 slots of 50 ms: 11 / 8 x 50 ms to wait, and 50 ms to run.
    for slo_ms, met in ((118.7, False), (118.8, True), (None, None)):
        assert expected(request(slo_ms=slo_ms), gpu, view, PRICES) == Expected(0.05, met)
    urgent = request(priority=Priority.REALTIME)
    assert expected(urgent, gpu, view, PRICES) == Expected(0.05, met=True)
    nowhere = Decision("unroutable", 10)  # type: ignore[arg-type]
    assert expected(urgent, nowhere, view, PRICES) == Expected(0.0, met=False)
    assert expected(urgent, Decision("waiting", 10, "gpu"), view, PRICES) is None  # type: ignore[arg-type]
