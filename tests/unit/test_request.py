"""A request is exactly what the contract says; everything else leaves with its category."""

from __future__ import annotations

import json

import orjson
import pytest

from schemas.errors import RecordRejected
from schemas.features import features_of
from schemas.parsing import parse_request
from schemas.request import EXPIRES_AFTER_MS_DEFAULT, Priority, arrival_ms, check_size, expiry_ms

NOW = 1_790_000_000_000


def test_a_byte_order_mark_is_named_as_what_is_wrong() -> None:
    with pytest.raises(RecordRejected, match="byte order mark") as rejected:
        parse_request(b"\xef\xbb\xbf" + text())
    assert rejected.value.category.value == "not-json"


@pytest.mark.parametrize(
    ("value", "place"), [(b'{"id": }', r"\(column 8\)"), (b'{"id":\n  }', r"\(line 2, column 3\)")]
)
def test_where_json_ends_is_said_with_the_line_if_there_are_several(
    value: bytes, place: str
) -> None:
    with pytest.raises(RecordRejected, match=place):
        parse_request(value)


def text(**fields: object) -> bytes:
    return orjson.dumps({"id": "a", "model_name": "m", "payload": {}} | fields)


def category(value: bytes | None) -> str:
    with pytest.raises(RecordRejected) as rejected:
        parse_request(value)
    return rejected.value.category.value


def test_three_fields_make_a_request_and_the_rest_has_defaults() -> None:
    request = parse_request(text())
    assert (request.priority, request.latency_slo_ms, request.has_lora) == (
        Priority.NORMAL, None, False,
    )  # fmt: skip
    assert expiry_ms(request, NOW) == NOW + EXPIRES_AFTER_MS_DEFAULT


def test_naming_an_adapter_implies_lora() -> None:
    assert features_of(parse_request(text(adapter="x")), NOW, b"").lora


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"priority": "urgent"}, "give one of realtime, normal, batch"),
        ({"requires": {"compute_types": ["cpu", "tpu"]}}, "give one of gpu, cpu, npu"),
    ],
)
def test_a_word_that_is_none_of_ours_is_answered_with_ours(
    fields: dict[str, object], known: str
) -> None:
    with pytest.raises(RecordRejected, match=known):
        parse_request(text(**fields))


def test_unknown_fields_are_ignored() -> None:
    assert parse_request(text(color="red", payload={"id": "nested", "id2": [{"id": 1}]})).id == "a"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null-value"),
        (b"", "not-json"),
        (b"nonsense", "not-json"),
        (b"[1]", "not-json"),
        (b'"text"', "not-json"),
        (text()[:-1], "not-json"),
        (text()[:-1] + b',"latency_slo_ms":NaN}', "not-json"),
        (text()[:-1] + b',"latency_slo_ms":Infinity}', "not-json"),
        (text()[:-1] + b',"latency_slo_ms":1e999}', "not-json"),
        (b"\xff\xfe{}", "bad-encoding"),
        (text()[:-1] + b',"x":"\xed\xa0\x80"}', "bad-encoding"),
        (text()[:-1] + b',"x":"\\ud800"}', "bad-encoding"),
        (text()[:-1] + b',"id":"b"}', "invalid-field"),
        (text()[:-1] + b',"\\u0069d":"b"}', "invalid-field"),
        (text()[:-1] + b', "id" : "b"}', "invalid-field"),
        (text(id=""), "invalid-field"),
        (text(id="a" * 129), "invalid-field"),
        (text(id="a b"), "invalid-field"),
        (text(id="a\n"), "invalid-field"),
        (text(id=7), "invalid-field"),
        (text(model_name=""), "invalid-field"),
        (text(payload=[]), "invalid-field"),
        (text(payload=None), "invalid-field"),
        (text(priority="urgent"), "invalid-field"),
        (text(latency_slo_ms=0), "invalid-field"),
        (text(latency_slo_ms=-1), "invalid-field"),
        (text(latency_slo_ms="100"), "invalid-field"),
        (text(latency_slo_ms=True), "invalid-field"),
        (text(estimated_gflops=-0.1), "invalid-field"),
        (text(has_lora="yes"), "invalid-field"),
        (text(arrived_at="yesterday"), "invalid-field"),
        (text(arrived_at="2026-11-29T12:00:00"), "invalid-field"),
        (text(expires_after_ms=0), "invalid-field"),
        (text(requires={"compute_types": ["tpu"]}), "invalid-field"),
        (b'{"model_name":"m","payload":{}}', "invalid-field"),
        (text(version=2), "unsupported-version"),
        (text(version="2.0"), "unsupported-version"),
        (text(x=json.loads("[" * 199 + "]" * 199))[:-1] + b"}", None),
        (text()[:-1] + b',"x":' + b"[" * 200 + b"]" * 200 + b"}", "too-deep"),
        (b'{"x":' * 100_000, "too-deep"),
        (text(x="[" * 5000), None),
        (text(x='\\"' + "{" * 5000), None),
        (text(version="1.7"), None),
        (text(arrived_at="2026-11-29T12:00:00Z"), None),
    ],
)
def test_each_way_to_be_wrong_has_its_category(value: bytes | None, expected: str | None) -> None:
    if expected is None:
        assert parse_request(value).id == "a"
    else:
        assert category(value) == expected


def test_a_message_never_quotes_the_value() -> None:
    with pytest.raises(RecordRejected) as rejected:
        parse_request(text(model_name=["sk-secret"]))
    assert "sk-secret" not in rejected.value.message


@pytest.mark.parametrize(
    ("claimed", "arrived"),
    [
        (None, NOW),
        (NOW - 1000, NOW - 1000),
        (NOW - 5 * 60_000, NOW - 5 * 60_000),
        (NOW - 5 * 60_000 - 1, NOW),
        (NOW + 5 * 60_000 + 1, NOW),
    ],
)
def test_a_clock_five_minutes_off_is_not_believed(claimed: int | None, arrived: int) -> None:
    assert arrival_ms(parse_request(text(arrived_at=claimed)), NOW) == arrived


@pytest.mark.parametrize(("size", "fits"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_key_value_and_headers_count_together(size: int, fits: bool) -> None:
    headers = [("h", b"x" * 99)]
    arguments = (b"k" * 100, b"v" * (size - 200), headers)
    if fits:
        check_size(*arguments)
    else:
        with pytest.raises(RecordRejected, match="at most 1048576"):
            check_size(*arguments)
