"""Nothing that travels says NaN or infinity, nor null in their place."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import executors.backends
import runtime.settings
import schemas
from executors.settings import BackendOptions
from schemas.document import to_json
from schemas.errors import FormatError, RecordRejected, Unwritable
from schemas.headers import SPENT, Origin, Passage, decode_passage, encode_passage
from schemas.message import Message, encode
from schemas.outcomes import Reason, Status
from schemas.parsing import parse_request
from schemas.pools import Pool
from schemas.request import Request
from schemas.result import DecisionSummary, Result, Timings

NOT_FINITE = (math.nan, math.inf, -math.inf)
finite = st.floats(allow_nan=False, allow_infinity=False)
keys = st.text(st.characters(codec="utf-8"), max_size=3)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | finite | keys
numbers = st.lists(finite, min_size=1)


def documents(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf | numbers,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=12,
    )


def with_one_at_a_random_place(document: Any, number: float, choose: st.DataObject) -> Any:
    if isinstance(document, list):
        at = choose.draw(st.integers(0, len(document)))
        if at < len(document) and choose.draw(st.booleans()):
            document = [*document]
            document[at] = with_one_at_a_random_place(document[at], number, choose)
            return document
        return [*document[:at], number, *document[at:]]
    if isinstance(document, dict):
        key = choose.draw(keys)
        return {**document, key: with_one_at_a_random_place(document.get(key), number, choose)}
    return number


@given(documents(leaves))
def test_a_document_of_finite_numbers_reads_back_as_it_was(document: Any) -> None:
    assert orjson.loads(to_json(document)) == document


@given(documents(leaves), st.sampled_from(NOT_FINITE), st.data())
def test_one_number_that_is_not_finite_is_an_error_wherever_it_stands(
    document: Any, number: float, choose: st.DataObject
) -> None:
    with pytest.raises(Unwritable, match=f"is {number}, which JSON cannot say"):
        to_json(with_one_at_a_random_place(document, number, choose))


def test_the_error_says_the_place() -> None:
    with pytest.raises(Unwritable, match=r"^outputs\[0\]\.data\[2\] is nan"):
        to_json({"outputs": [{"data": [0.5, 1.5, math.nan]}]})
    with pytest.raises(Unwritable, match="the value is inf"):
        to_json(math.inf)
    with pytest.raises(Unwritable, match="is inf"):
        to_json({"weights": {math.inf: 1}})


@dataclass(frozen=True)
class Point:
    at: float


@pytest.mark.parametrize(
    "holder",
    [Point, lambda one: defaultdict(list, {"a": [one]}), lambda one: (1, (one,))],
)
def test_all_that_the_writer_writes_is_looked_through(holder: Callable[[float], Any]) -> None:
    assert to_json({"it": holder(0.5)})
    with pytest.raises(Unwritable, match=r"it.* is nan"):
        to_json({"it": holder(math.nan)})


def test_numbers_whose_sum_is_too_large_are_written_and_their_neighbour_is_found() -> None:
    assert orjson.loads(to_json([1e308, 1e308])) == [1e308, 1e308]
    with pytest.raises(Unwritable, match="nan"):
        to_json([1e308, 1e308, math.nan])


def test_what_is_nested_too_deep_or_no_json_at_all_is_the_same_error() -> None:
    nested: list[Any] = []
    for _ in range(5_000):
        nested = [nested]
    with pytest.raises(Unwritable, match="too deep"):
        to_json(nested)
    for odd in ({"set": {1}}, {"half a pair": "\ud800"}, {"large": 2**64}):
        with pytest.raises(Unwritable, match="cannot be written as JSON"):
            to_json(odd)


def kinds(base: type[BaseModel]) -> list[type[BaseModel]]:
    found = [base]
    for kind in base.__subclasses__():
        found += kinds(kind)
    return found


def ours() -> list[type[BaseModel]]:
    """Return the models that travel or become part of what does: messages, settings, options."""
    for package in (schemas, executors.backends):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            if "onnx_session" not in module.name:
                importlib.import_module(module.name)
    bases = (Message, BackendOptions, Pool, runtime.settings._Group, runtime.settings.Settings)
    return [kind for base in bases for kind in kinds(base)]


FIELDS = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in ours()
    for name, field in kind.model_fields.items()
    if field.annotation is float or float in get_args(field.annotation)
]


@pytest.mark.parametrize(("kind", "field"), FIELDS)
@pytest.mark.parametrize("number", NOT_FINITE)
def test_no_field_of_a_message_or_a_setting_takes_it(
    kind: type[BaseModel], field: str, number: float
) -> None:
    with pytest.raises(ValidationError) as refused:
        kind(**{field: number})
    assert any(error["loc"][0] == field for error in refused.value.errors())


def result(**fields: Any) -> Result:
    return Result(
        id="r",
        status=Status.OK,
        timings_ms=Timings(to_router=1, total=1),
        decision=DecisionSummary(reason=Reason.OVERFLOW, threshold=10, policy="overflow"),
        **fields,
    )


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("field", ["output", "usage", "earlier_cost"])
def test_no_result_carries_it(field: str, number: float) -> None:
    with pytest.raises((Unwritable, ValidationError)):
        result(**{field: {"x": number}})
    assert orjson.loads(encode(result(**{field: {"x": 0.5}})))[field] == {"x": 0.5}


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
@pytest.mark.parametrize(
    "field", ["latency_slo_ms", "estimated_gflops", "expires_after_ms", "arrived_at"]
)
def test_no_request_brings_it_in(field: str, text: bytes) -> None:
    with pytest.raises(RecordRejected):
        parse_request(b'{"id":"r","model_name":"m","payload":{},"%s":%s}' % (field.encode(), text))


@pytest.mark.parametrize("field", ["latency_slo_ms", "estimated_gflops", "expires_after_ms"])
def test_a_request_bounds_the_numbers_that_decisions_say_of_it(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"id": "r", "model_name": "m", "payload": {}, field: math.inf}, Request)


@pytest.mark.parametrize("cost", [b"null", b'"nan"', b'"inf"'])
def test_no_header_brings_it_in(cost: bytes) -> None:
    passage = Passage("r", Origin("t", 0, 0), 1, spent=(("gpu", 0.5),))
    ours = {name: value or b"" for name, value in encode_passage(passage)}
    assert decode_passage(ours).spent == passage.spent
    with pytest.raises(FormatError):
        decode_passage({**ours, SPENT: b'[["gpu",%s]]' % cost})
