"""Whatever object is sent, it is a request as declared or a dead letter with a category."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import RecordRejected
from schemas.outcomes import DeadLetterCategory
from schemas.parsing import parse_request

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
def test_any_object_is_a_request_with_its_fields_as_sent_or_has_an_invalid_one(
    document: dict[str, Any],
) -> None:
    try:
        request = parse_request(orjson.dumps(document))
    except RecordRejected as rejected:
        category = rejected.category
    else:
        category = None
    if category is not None:
        assert category is DeadLetterCategory.INVALID_FIELD
        return
    for name, value in document.items():
        if name != "unknown":
            read = getattr(request, name)
            assert read == value
            assert isinstance(value, bool) == isinstance(read, bool)
    assert request.model_name
    assert request.latency_slo_ms is None or request.latency_slo_ms > 0
