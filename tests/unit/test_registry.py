"""The registry as its topic tells it, and what of a change it does not show yet."""

from __future__ import annotations

import logging

import pytest

from deploy.models.change import Change
from schemas.control import ModelRecord
from schemas.message import encode
from schemas.pools import ComputeType
from schemas.registry import HEAD_KEY, RegistryHead
from streams.registry import Registry, RegistryFold

A = ModelRecord(name="a", pinned=(ComputeType.GPU,), revision=1)
B = ModelRecord(name="b", revision=2)
HEAD = RegistryHead(revision=2, who="alice", at_ms=1)


def folded(*records: tuple[bytes | None, bytes | None]) -> Registry:
    fold = RegistryFold()
    for offset, (key, value) in enumerate(records):
        fold.take(offset, key, value)
    return fold.registry()


def test_the_last_record_of_each_model_counts_and_a_null_value_removes_it() -> None:
    older = A.model_copy(update={"pinned": None})
    records = [
        (b"a", encode(older)),
        (b"b", encode(B)),
        (b"a", encode(A)),
        (HEAD_KEY, encode(HEAD)),
    ]
    assert folded(*records) == Registry({"a": A, "b": B}, HEAD)
    assert folded(*records, (b"b", None), (b"unknown", None)) == Registry({"a": A}, HEAD)


def test_records_of_before_there_was_a_head_are_models_of_revision_0() -> None:
    registry = folded((b"a", b'{"version": 1, "name": "a", "parameters": 5}'))
    assert (registry.revision, registry.models["a"].revision) == (0, 0)
    assert registry.models["a"].parameters == 5


@pytest.mark.parametrize(
    "record",
    [(b"a", b"{"), (b"a", b'{"version": 9, "name": "a"}'), (b"a", b"[]"), (HEAD_KEY, b"{}")],
)
def test_a_record_that_does_not_decode_is_said_and_changes_nothing(
    record: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    before = [(b"a", encode(A)), (HEAD_KEY, encode(HEAD))]
    with caplog.at_level(logging.WARNING):
        assert folded(*before, record) == folded(*before)
    assert "at offset 2 ignored" in caplog.text


def test_a_change_leaves_out_what_the_registry_shows_already() -> None:
    change = Change([A.model_copy(update={"revision": 0}), B], ["gone", "c"])
    models = {"a": A, "c": ModelRecord(name="c")}
    assert change.beyond(models) == Change((B,), ("c",))
    assert change.after(models) == {"a": A.model_copy(update={"revision": 0}), "b": B}
    assert change.beyond(change.after(models)) == Change((), ())
