"""What docs say by example is true: JSON and bytes are read by the code, and tests named exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from executors.backends.registry import BACKENDS
from executors.settings import BackendOptions
from schemas.control import LagSample, ModelRecord, NodeReport, Snapshot
from schemas.decisions import decode_decisions
from schemas.message import Message, decode
from schemas.metadata import FinishedCounts, RouterCounts, decode_finished
from schemas.orders import Order
from schemas.outcomes import DeadLetterCategory, ErrorCategory
from schemas.parsing import parse_request
from schemas.registry import RegistryHead
from schemas.result import DecisionHeader, Result

ROOT = Path(__file__).parents[2]
MESSAGES = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
RELIABILITY = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
EXAMPLES = [orjson.loads(block) for block in re.findall(r"```json\n(.*?)```", MESSAGES, re.DOTALL)]


def example(field: str) -> Any:
    """Return the first example that has this field."""
    return next(document for document in EXAMPLES if field in document)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Result, "served_by"),
        (DecisionHeader, "counts_work"),
        (NodeReport, "reported_at_ms"),
        (LagSample, "took_ms"),
        (Snapshot, "published_at_ms"),
        (ModelRecord, "tokenizer_digest"),
        (Order, "why"),
        (RegistryHead, "revision"),
    ],
)
def test_an_example_is_a_message_with_no_field_that_it_has_not(
    kind: type[Message], field: str
) -> None:
    shown = example(field)
    assert shown.keys() <= kind.model_fields.keys()
    assert decode(kind, orjson.dumps(shown))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_option_of_a_backend_is_told_and_no_other(backend: str) -> None:
    module = importlib.import_module(BACKENDS[backend])
    (declared,) = (
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, BackendOptions) and one is not BackendOptions
    )
    page = (ROOT / "docs" / "backends.md").read_text(encoding="utf-8")
    section = page.split(f"## `{backend}`")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(declared.model_fields)


def test_the_example_of_a_request_is_one() -> None:
    assert parse_request(orjson.dumps(example("payload"))).id == "r-1"


def test_the_example_of_decisions_reads_back_with_its_features() -> None:
    record = decode_decisions(orjson.dumps(example("rows")))
    (row,) = record.rows
    assert record.counts[0] == RouterCounts(
        {"gpu": (3, 1)}, consumed=5, dead=1, work={"gpu": (7_500, 0)}
    )
    assert row.features is not None
    assert row.features.conversation == "c-7"
    assert record.bound == (("c-5", "cpu", "cpu-1"),)


def test_the_bytes_of_offset_metadata_are_as_shown() -> None:
    assert "`.AgwBApL0ASgDCgMG`" in MESSAGES
    shown = FinishedCounts(12, 40, (30, 33, 39), dead=1, expired=2, work=31_250)
    assert decode_finished(".AgwBApL0ASgDCgMG") == shown


@pytest.mark.parametrize("category", [*ErrorCategory, *DeadLetterCategory])
def test_every_category_is_explained(category: ErrorCategory | DeadLetterCategory) -> None:
    assert f"`{category.value}`" in MESSAGES


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")), ids=str)
def test_a_decision_says_its_number_and_whether_it_stands(path: Path) -> None:
    title, _, status, *_ = path.read_text(encoding="utf-8").splitlines()
    assert title.startswith(f"# {path.name[:4]} ")
    assert status.startswith("Status: accepted, 20")


def test_no_two_decisions_have_a_number_in_common() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs" / "adr").glob("[0-9]*.md")]
    assert len(numbers) == len(set(numbers)) > 30


def test_every_test_that_reliability_names_is_there() -> None:
    named = re.findall(r"((?:unit|property|kafka)/test_\w+)(?:: ([\w, ]+))?", RELIABILITY)
    assert len(named) > 40
    for file, names in named:
        source = (ROOT / "tests" / f"{file}.py").read_text(encoding="utf-8")
        for name in filter(None, names.split(", ")):
            assert f"def test_{name.strip()}(" in source, f"{file}: {name}"
