"""What is sent to each kind of server, and what is read of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executors.backends.base import Call, Load
from executors.backends.openai_dialect import (
    Dialect,
    PriorityOrder,
    answers_for,
    body_of,
    load_in_header,
    load_in_metrics,
    read_listing,
)
from executors.backends.sse import EventReader
from schemas.request import Priority

ADAPTERS = ("legal", "medical")
VLLM_METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 7.5e-01
"""


def body(
    dialect: Dialect,
    adapter: str | None = None,
    order: PriorityOrder = "none",
    priority: Priority = Priority.NORMAL,
) -> dict[str, Any]:
    call = Call("r", "base", adapter, {"prompt": "x"}, priority)
    return body_of(call, dialect, order, ADAPTERS)


def test_each_server_is_told_of_the_adapter_in_its_own_way() -> None:
    assert body("vllm", "medical") == {"prompt": "x", "model": "medical"}
    assert body("other", "medical") == {"prompt": "x", "model": "medical"}
    sglang = {"prompt": "x", "model": "base", "lora_path": "medical"}
    assert body("sglang", "medical") == sglang
    told = [{"id": 0, "scale": 0.0}, {"id": 1, "scale": 1.0}]
    assert body("llama.cpp", "medical") == {"prompt": "x", "model": "base", "lora": told}


def test_llama_cpp_is_told_that_the_base_model_runs_bare() -> None:
    assert [one["scale"] for one in body("llama.cpp")["lora"]] == [0.0, 0.0]
    assert "lora" not in body_of(Call("r", "base", None, {}), "llama.cpp", "none", ())


@pytest.mark.parametrize("order", ["lower_first", "higher_first"])
def test_urgent_work_comes_first_in_either_direction(order: PriorityOrder) -> None:
    sent = [body("vllm", order=order, priority=priority)["priority"] for priority in Priority]
    urgency = [Priority.REALTIME, Priority.NORMAL, Priority.BATCH]
    assert list(Priority) == urgency
    assert sent == sorted(sent, reverse=order == "higher_first")
    assert len(set(sent)) == len(sent)


def test_without_a_known_order_no_priority_is_sent() -> None:
    assert "priority" not in body("vllm")


def test_a_listing_of_vllm_tells_models_adapters_and_context() -> None:
    listing = read_listing(
        {
            "data": [
                {"id": "base", "owned_by": "vllm", "parent": None, "max_model_len": 512},
                {"id": "legal", "owned_by": "vllm", "parent": "base"},
            ]
        }
    )
    assert listing.dialect == "vllm"
    assert listing.models == {"base": "base"}
    assert listing.adapters == {"legal": "base"}
    assert listing.context_tokens == {"base": 512}


@pytest.mark.parametrize(
    ("answered", "right"),
    [
        ("gpt-x", True), ("canonical", True), (None, True), ("gpt-x-2026-01-31", True),
        ("gpt-x:latest", True), ("gpt-x-large", False), ("gpt", False), ("other", False),
        (7, False),
    ],
)  # fmt: skip
def test_an_answer_of_another_model_is_seen(answered: object, right: bool) -> None:
    assert answers_for(answered, "gpt-x", "canonical") is right


def test_load_is_read_from_the_header_of_an_answer() -> None:
    told = 'JSON {"named_metrics":{"num_requests_waiting":2.0,"kv_cache_usage_perc":0.5}}'
    assert load_in_header(told) == Load(None, 2, 0.5)
    for wrong in ("TEXT a=1", "JSON {}", "JSON []", 'JSON {"named_metrics": {}}'):
        assert load_in_header(wrong) is None


def test_load_is_read_from_a_page_of_metrics_all_engines_together() -> None:
    assert load_in_metrics(VLLM_METRICS) == Load(5, 5, 0.75)
    llama = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n"
    assert load_in_metrics(llama) == Load(1, 2, None)
    assert load_in_metrics("up 1\n") is None


TEXTS = st.lists(st.binary(min_size=1).filter(lambda b: not set(b"\r\n") & set(b)), max_size=5)


@given(TEXTS, st.integers(1, 7), st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_the_same_however_their_bytes_arrive(
    texts: list[bytes], size: int, end: bytes
) -> None:
    sent = b"".join(b": ping" + end + b"data: " + text + end + end for text in texts)
    reader = EventReader()
    got = [event for at in range(0, len(sent), size) for event in reader.feed(sent[at : at + size])]
    assert got == texts


def test_data_of_several_lines_is_one_event() -> None:
    assert EventReader().feed(b"event: x\ndata: a\ndata:b\n\n") == [b"a\nb"]
