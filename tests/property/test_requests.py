"""Whatever object is sent, it is a request as declared or a dead letter with a category."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import RecordRejected
from schemas.outcomes import DeadLetterCategory
from schemas.parsing import parse_request

ID_LETTERS = frozenset(string.ascii_letters + string.digits + "._:-")


def _named(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 256


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1e15


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _or_null(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


RULES: dict[str, Callable[[Any], bool]] = {
    "id": lambda value: _named(value) and len(value) <= 128 and set(value) <= ID_LETTERS,
    "model_name": _named,
    "payload": lambda value: isinstance(value, dict),
    "priority": lambda value: value in ("realtime", "normal", "batch"),
    "latency_slo_ms": _or_null(_positive),
    "estimated_gflops": _or_null(_number),
    "has_lora": lambda value: isinstance(value, bool),
    "adapter": _or_null(_named),
    "conversation_id": _or_null(_named),
    "tenant": _or_null(_named),
    "expires_after_ms": _or_null(_positive),
    "unknown": lambda _: True,
}
"""What docs/messages.md says of each field, said once more: the code has it from types."""

WELL_FORMED: dict[str, Any] = {
    "id": "A.b_c:d-1", "model_name": "\N{SNOWMAN}" * 256, "payload": {"prompt": "hi"},
    "priority": "batch", "latency_slo_ms": 0.5, "estimated_gflops": 0, "has_lora": True,
    "adapter": "lora-1", "conversation_id": "c", "tenant": "t", "expires_after_ms": 1e15,
    "unknown": [],
}  # fmt: skip

junk = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=3), st.just([]), st.just({}),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["x" * 128, "x" * 129, "x" * 256, "x" * 257, "a\n", 10**15, 10**15 + 1]),
)  # fmt: skip
fields = st.sampled_from(sorted(RULES))


@given(spoilt=st.dictionaries(fields, junk, max_size=2), left_out=st.sets(fields, max_size=2))
@example(spoilt={"id": "a\n"}, left_out=set())
@example(spoilt={"has_lora": 1}, left_out=set())
@example(spoilt={"latency_slo_ms": True}, left_out=set())
@example(spoilt={"latency_slo_ms": 0}, left_out=set())
@example(spoilt={"model_name": ""}, left_out=set())
def test_any_object_is_a_request_with_its_fields_as_sent_or_has_an_invalid_one(
    spoilt: dict[str, Any], left_out: set[str]
) -> None:
    whole = {**WELL_FORMED, **spoilt}
    document = {name: value for name, value in whole.items() if name not in left_out}
    well_formed = {"id", "model_name", "payload"} <= document.keys() and all(
        RULES[name](value) for name, value in document.items()
    )
    try:
        request = parse_request(orjson.dumps(document))
    except RecordRejected as rejected:
        category = rejected.category
    else:
        category = None
    assert category is (None if well_formed else DeadLetterCategory.INVALID_FIELD)
    if category is not None:
        return
    for name, value in document.items():
        if name != "unknown":
            read = getattr(request, name)
            assert read == value
            assert isinstance(value, bool) == isinstance(read, bool)
