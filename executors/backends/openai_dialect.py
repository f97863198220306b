"""What servers of the OpenAI protocol call things: their models, adapters, priorities, load.

Pure. vLLM, llama.cpp and SGLang speak one protocol and differ just where silence costs most: each
serves the base model, or inverts a priority, rather than say that it did not understand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

from executors.backends.base import Call, Load
from schemas.request import Priority

Dialect = Literal["vllm", "sglang", "llama.cpp", "other"]
PriorityOrder = Literal["lower_first", "higher_first", "none"]

LOAD_HEADER = "endpoint-load-metrics"
ASK_FOR_LOAD = {f"{LOAD_HEADER}-format": "JSON"}
"""vLLM then tells its queue with each answer; others ignore it."""

_NOT_THE_CALLERS = (
    "model", "stream", "stream_options", "priority", "lora", "lora_path", "id_slot", "cache_prompt",
    "request_id",
)  # fmt: skip
"""Fields that would bypass the checks of model and adapter, the order of the pool, or the slots."""
_OWNERS: dict[str, Dialect] = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}
_RANKS = {Priority.REALTIME: 0, Priority.NORMAL: 1, Priority.BATCH: 2}
_DATED = re.compile(r"-\d{4}-\d\d-\d\d|-\d{8}|:[\w.-]+")
"""What a server may add to a model's name: the date of a snapshot, or a tag."""


class Listing(NamedTuple):
    """What a server serves.

    Attributes:
        dialect: by its own word.
        models: the name by which each answers, by every name that it takes.
        adapters: the model of each, None where it is not told.
        context_tokens, precision: of each model that tells it.
    """

    dialect: Dialect
    models: Mapping[str, str]
    adapters: Mapping[str, str | None]
    context_tokens: Mapping[str, int]
    precision: Mapping[str, str]


def read_listing(document: Mapping[str, Any]) -> Listing:
    """Return what the answer of /v1/models lists; raise KeyError, TypeError or AttributeError."""
    found = Listing("other", {}, {}, {}, {})
    models, adapters, context, precision = {}, {}, {}, {}
    for entry in document["data"]:
        name = entry["id"]
        found = found._replace(dialect=_OWNERS.get(entry.get("owned_by"), found.dialect))
        if entry.get("parent") is not None:
            adapters[name] = entry["parent"]
            continue
        models[name] = name
        models |= dict.fromkeys(entry.get("aliases") or (), name)
        meta = entry.get("meta") or {}
        tokens = entry.get("max_model_len") or meta.get("n_ctx")
        if isinstance(tokens, int):
            context[name] = tokens
        if meta.get("ftype"):
            precision[name] = str(meta["ftype"]).lower()
    return found._replace(
        models=models, adapters=adapters, context_tokens=context, precision=precision
    )


def body_of(
    call: Call, dialect: Dialect, order: PriorityOrder, adapters: tuple[str, ...]
) -> dict[str, Any]:
    """Return what is sent for a request: the caller's payload with what is ours to say.

    Args:
        call: the request.
        dialect: of the server.
        order: of its scheduler.
        adapters: in the order of their ids, which llama.cpp goes by.
    """
    body = {name: value for name, value in call.payload.items() if name not in _NOT_THE_CALLERS}
    body["model"] = call.model
    if dialect == "llama.cpp" and adapters:
        # Whatever it is not told of it may apply, and of an empty list it takes no notice.
        body["lora"] = [
            {"id": number, "scale": float(name == call.adapter)}
            for number, name in enumerate(adapters)
        ]
    elif dialect == "sglang" and call.adapter is not None:
        body["lora_path"] = call.adapter
    elif call.adapter is not None:
        body["model"] = call.adapter
    if order != "none":
        rank = _RANKS[call.priority]
        body["priority"] = rank if order == "lower_first" else len(_RANKS) - 1 - rank
    return body


def answers_for(answered: object, asked: str, canonical: str | None) -> bool:
    """Return whether an answer's model is the one asked for; one that names none is taken."""
    if answered is None or answered in (asked, canonical):
        return True
    return (
        isinstance(answered, str)
        and answered.startswith(asked)
        and _DATED.fullmatch(answered, len(asked)) is not None
    )


def load_in_header(header: str) -> Load | None:
    """Return the load that an answer's header tells; None if it tells none readably."""
    try:
        told = orjson.loads(header.removeprefix("JSON"))["named_metrics"]
        kv_used = told.get("kv_cache_usage_perc")
        return Load(None, int(told["num_requests_waiting"]), kv_used)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError):
        return None


_METRICS = (
    ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"),
    ("sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"),
    ("llamacpp:requests_processing", "llamacpp:requests_deferred", ""),
    ("tgi_batch_current_size", "tgi_queue_size", ""),
)
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{.*\})? ([-+.\deE]+)", re.MULTILINE)


def load_in_metrics(exposition: str) -> Load | None:
    """Return the load that a /metrics page tells, all engines added up; None if it tells none."""
    samples: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(exposition):
        samples.setdefault(name, []).append(float(value))
    for running, waiting, kv_used in _METRICS:
        if running in samples and waiting in samples:
            fullest = max(samples[kv_used]) if kv_used in samples else None
            return Load(int(sum(samples[running])), int(sum(samples[waiting])), fullest)
    return None
