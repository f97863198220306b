"""The quick way to read a request accepts nothing that its model refuses, and reads alike."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import RecordRejected
from schemas.parsing import declared_request, plain_request

junk = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=3),
    st.just([]), st.just({}), st.just("x" * 257), st.just(10**16),
)  # fmt: skip
fields: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["a", "A.b_c:d-1", "x" * 128]) | junk,
    "model_name": st.sampled_from(["m", "é" * 256]) | junk,
    "payload": st.just({"prompt": "hi"}) | junk,
    "priority": st.sampled_from(["realtime", "normal", "batch"]) | junk,
    "latency_slo_ms": st.sampled_from([1, 0.5, 1e15]) | junk,
    "estimated_gflops": st.sampled_from([0, 3, 1e15]) | junk,
    "has_lora": st.booleans() | junk,
    "adapter": st.just("lora-1") | junk,
    "conversation_id": st.just("c") | junk,
    "tenant": st.just("t") | junk,
    "expires_after_ms": st.just(5) | junk,
    "unknown": junk,
}
documents = st.fixed_dictionaries(
    {name: fields[name] for name in ("id", "model_name", "payload")},
    optional={
        name: made for name, made in fields.items() if name not in ("id", "model_name", "payload")
    },
)


@given(documents)
@example({"id": "a\n", "model_name": "m", "payload": {}})
@example({"id": "a", "model_name": "m", "payload": {}, "has_lora": 1})
@example({"id": "a", "model_name": "m", "payload": {}, "latency_slo_ms": True})
def test_a_document_read_quickly_reads_alike_as_declared(document: dict[str, Any]) -> None:
    quick = plain_request(document)
    declared = None
    with contextlib.suppress(RecordRejected):
        declared = declared_request(document)
    if quick is not None:
        assert quick == declared
        assert list(map(type, quick)) == list(map(type, declared or ()))


def test_an_ordinary_request_is_read_quickly() -> None:
    document = {"id": "a", "model_name": "m", "payload": {}, "priority": "batch",
                "latency_slo_ms": 5, "tenant": "t"}  # fmt: skip
    assert plain_request(document) is not None
