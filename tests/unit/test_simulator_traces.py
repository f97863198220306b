"""Traces are read by their columns, and what they do not tell is drawn by the published rule."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pytest

from lab.simulator.sample import azure_sample, mooncake_sample
from lab.simulator.traces import Arrival, read_trace
from lab.simulator.workload import LARGE, SMALL, conversations, workload
from schemas.errors import UsageError
from schemas.request import Priority
from schemas.value import replace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
MOONCAKE = """{"timestamp": 3000, "input_length": 20, "output_length": 3, "hash_ids": [0, 5]}
{"timestamp": 1000, "input_length": 10, "output_length": 5}

"""


def written(folder: Path, text: str) -> Path:
    file = folder / "trace"
    file.write_text(text)
    return file


def test_azures_columns_are_read_with_all_digits_of_their_times(tmp_path: Path) -> None:
    first, second = read_trace(written(tmp_path, AZURE))
    assert first == Arrival(0.0, 374, 44)
    assert second == Arrival(pytest.approx(4314.579), 396, 109)


def test_the_zone_of_newer_azure_traces_is_passed_over(tmp_path: Path) -> None:
    text = AZURE.replace("6805900", "680590+00:00").replace("9951690", "995169+00:00")
    assert read_trace(written(tmp_path, text))[1].at_ms == pytest.approx(4314.579)
    columns, *_ = AZURE.splitlines()
    hours = f"{columns}\n2023-11-16T18+00:00,7,7\n2023-11-16T19+00:00,7,7\n"
    assert read_trace(written(tmp_path, hours))[1].at_ms == 3_600_000


def test_mooncakes_lines_are_read_in_order_of_time(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, MOONCAKE)) == [
        Arrival(0.0, 10, 5),
        Arrival(2000.0, 20, 3, (0, 5)),
    ]


@pytest.mark.parametrize("text", [AZURE, MOONCAKE])
def test_a_gzipped_trace_is_the_same_trace(tmp_path: Path, text: str) -> None:
    plain = read_trace(written(tmp_path, text))
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_trace(packed) == plain


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it needs the columns"),
        ("a,b\n1,2\n", "TIMESTAMP, ContextTokens, GeneratedTokens"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no request"),
        (AZURE + "2023-11-16 18:15:51,7\n", "line 4"),
        (AZURE + "yesterday,7,7\n", "line 4"),
        (AZURE + "2023-11-16 18:15:51,-7,7\n", "line 4: -7 is no number of tokens"),
        ('{"timestamp": 0, "input_length": 3}\n', "line 1: 'output_length' is missing"),
        ('{"timestamp": 0, "input_length": 3.5, "output_length": 1}', "line 1"),
        ('{"timestamp": 0', "line 1"),
        ('{"timestamp":0,"input_length":3,"output_length":1,"hash_ids":7}', "line 1"),
    ],
)
def test_what_is_no_trace_is_refused_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_trace(written(tmp_path, text))


@pytest.mark.parametrize(
    "raw", [b"\x1f\x8bno", gzip.compress(b"abcdef" * 99, mtime=0)[:40], b"\xff\xfe"]
)
def test_broken_bytes_are_refused(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "broken"
    file.write_bytes(raw)
    with pytest.raises(UsageError, match="broken"):
        read_trace(file)
    with pytest.raises(UsageError, match="cannot read"):
        read_trace(tmp_path / "absent")


def test_both_sample_traces_hold_the_same_requests(tmp_path: Path) -> None:
    azure = read_trace(written(tmp_path, azure_sample()))
    mooncake = read_trace(written(tmp_path, mooncake_sample()))
    assert [replace(one, blocks=()) for one in mooncake] == azure
    assert len(azure) == 400


ARRIVALS = [Arrival(number * 10.0, 1000, 100) for number in range(4000)]


def test_the_same_seed_gives_the_same_workload_and_another_one_does_not() -> None:
    assert workload(ARRIVALS, 1) == workload(ARRIVALS, 1)
    assert workload(ARRIVALS, 1) != workload(ARRIVALS, 2)


def test_the_first_part_of_a_trace_is_asked_for_as_in_the_whole() -> None:
    assert workload(ARRIVALS[:100], 3) == workload(ARRIVALS, 3)[:100]


def test_speed_changes_when_requests_come_and_nothing_else_of_them() -> None:
    slow, fast = workload(ARRIVALS[:50], 1), workload(ARRIVALS[:50], 1, speed=5.0)
    for before, after in zip(slow, fast, strict=True):
        assert after.at_ms == before.at_ms / 5
        assert after.slo_ms == before.slo_ms
        assert after.chance == before.chance
    for speed in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="makes no time"):
            workload(ARRIVALS, 1, speed)


def test_shares_and_objectives_are_as_published() -> None:
    asked = workload(ARRIVALS, 1)
    features = [one.features for one in asked]
    near = pytest.approx
    priorities = Counter(one.priority for one in features)
    assert priorities[Priority.REALTIME] / len(asked) == near(0.2, abs=0.03)
    assert priorities[Priority.NORMAL] / len(asked) == near(0.3, abs=0.03)
    assert sum(one.model == SMALL for one in features) / len(asked) == near(0.2, abs=0.03)
    assert sum(one.lora for one in features) / len(asked) == near(0.1, abs=0.02)
    batch = [one for one in features if one.priority is Priority.BATCH]
    assert sum(one.slo_ms is None for one in batch) / len(batch) == near(0.5, abs=0.03)
    # 1,000 tokens read at 5,000 a second and 100 written at 50: 2,200 ms on the reference gpu.
    objectives = {
        (one.model, one.priority): one.slo_ms for one in features if one.slo_ms is not None
    }
    assert objectives[LARGE, Priority.REALTIME] == near(500 + 2 * 2200)
    assert objectives[LARGE, Priority.NORMAL] == near(2_000 + 6 * 2200)
    assert objectives[LARGE, Priority.BATCH] == near(10_000 + 30 * 2200)
    small = next(one for one in asked if one.features.model == SMALL)
    assert (small.prompt_tokens, small.output_tokens) == (62, 6)


def test_a_turn_belongs_to_the_conversation_whose_prompt_it_repeats() -> None:
    told = conversations(
        [
            Arrival(0, 1, 1, (0, 1)),
            Arrival(1, 1, 1, (0, 2)),  # shares the system prompt only
            Arrival(2, 1, 1, (0, 1, 3)),
            Arrival(3, 1, 1, (0, 2, 4)),
            Arrival(4, 1, 1, (0, 1, 3, 5)),
            Arrival(5, 1, 1, (0,)),
            Arrival(6, 1, 1, (0,)),
            Arrival(7, 1, 1),  # the trace does not tell
        ]
    )
    assert told == ["c0", "c1", "c0", "c1", "c0", "c5", "c6", None]
