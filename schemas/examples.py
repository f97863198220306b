"""Messages to show and to try: what a caller may send, and what it gets back.

Pure data. docs/asyncapi.json shows them; tests send the requests to a running system.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Example(NamedTuple):
    """One message as a caller sees it; `headers` are the caller's own."""

    name: str
    summary: str
    payload: dict[str, Any]
    headers: dict[str, str]


REQUESTS = (
    Example(
        "smallest",
        "The three fields that are required: an OpenAI completion body.",
        {"id": "example-1", "model_name": "tiny-docs", "payload": {"prompt": "The with statement"}},
        {},
    ),
    Example(
        "batch",
        "Patient work with an objective of 15 s; it may run where it is cheap.",
        {
            "id": "example-2",
            "model_name": "tiny-docs",
            "priority": "batch",
            "latency_slo_ms": 15000,
            "tenant": "search",
            "payload": {"prompt": "The with statement", "max_tokens": 16},
        },
        {"traceparent": TRACEPARENT},
    ),
    Example(
        "realtime-chat",
        "A turn of a conversation that somebody waits for; the next one goes to the same node.",
        {
            "id": "example-3",
            "model_name": "tiny-docs",
            "priority": "realtime",
            "conversation_id": "c-7",
            "payload": {
                "messages": [{"role": "user", "content": "What does with do?"}],
                "max_tokens": 16,
            },
        },
        {"traceparent": TRACEPARENT},
    ),
    Example(
        "pinned",
        "It says itself which compute types may run it, and how soon it is worth nothing.",
        {
            "id": "example-4",
            "model_name": "tiny-docs",
            "requires": {"compute_types": ["cpu", "gpu"]},
            "expires_after_ms": 3600000,
            "payload": {"prompt": "def __enter__(self):", "max_tokens": 8},
        },
        {},
    ),
)

RESULT = Example(
    "ok",
    "What came of `batch`.",
    {
        "version": 1,
        "id": "example-2",
        "status": "ok",
        "output": {
            "object": "text_completion",
            "choices": [{"index": 0, "text": " executes", "finish_reason": "length"}],
        },
        "error": None,
        "served_by": {
            "node": "cpu-1",
            "pool": "cpu",
            "compute_type": "cpu",
            "backend": "llama",
            "engine": "llama.cpp (xllamacpp 0.1)",
            "device": "cpu",
            "model": "tiny-docs",
            "adapter": None,
            "emulated": False,
        },
        "timings_ms": {"to_router": 12.0, "in_pool": 4.1, "run": 63.0, "total": 79.5},
        "usage": {"prompt_tokens": 4, "completion_tokens": 16, "total_tokens": 20},
        "cost": 0.0063,
        "earlier_cost": {},
        "slo": {"ms": 15000.0, "met": True},
        "decision": {
            "reason": "overflow",
            "threshold": 10,
            "policy": "overflow",
            "mode": "normal",
            "pool": "cpu",
            "node": "cpu-1",
            "decided_at_ms": 1764441600012,
        },
        "attempt": 1,
        "tenant": "search",
        "model_name": "tiny-docs",
    },
    {"traceparent": TRACEPARENT, "overspill-request-id": "example-2"},
)

LETTER_HEADERS = {
    "overspill-error-category": "invalid-field",
    "overspill-error-message": "model_name: it is missing",
    "overspill-error-first-seen": "1764441600012",
}
