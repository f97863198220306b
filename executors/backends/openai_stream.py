"""Reads an answer that an OpenAI server streams, and puts it together.

Knows chunks and their faults, not which model was asked.
"""

from __future__ import annotations

import time
from typing import Any

from executors.backends.base import BackendError
from executors.backends.chunks import join_chat, join_completion
from executors.backends.http import STREAM_BYTES_MAX, Answer, json_object
from executors.backends.http_errors import error_in
from executors.backends.payload import Protocol
from executors.backends.sse import EventReader
from schemas.outcomes import ErrorCategory

_DONE = b"[DONE]"
_TEXTS = ("content", "reasoning_content", "tool_calls")
"""Fields of a chat's delta in which the first token may come."""


async def read_stream(
    answer: Answer, adapter: str | None
) -> tuple[list[dict[str, Any]], float | None]:
    """Return the chunks of a streamed answer, and when the first text came (perf_counter)."""
    events, chunks, first_s = EventReader(), list[dict[str, Any]](), None
    async for piece in answer.pieces(STREAM_BYTES_MAX):
        for event in events.feed(piece):
            if event.strip() == _DONE:
                return chunks, first_s
            chunk = json_object(event)
            error = error_in(chunk, adapter=adapter)
            if error is not None:
                raise error
            if first_s is None and _has_text(chunk):
                first_s = time.perf_counter()
            chunks.append(chunk)
    return chunks, first_s


def _has_text(chunk: dict[str, Any]) -> bool:
    return any(
        choice.get("text") or any(choice.get("delta", {}).get(name) for name in _TEXTS)
        for choice in chunk.get("choices", ())
    )


def joined(protocol: Protocol, chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer that the chunks make; raise BackendError if they are none or not all."""
    try:
        output = join_chat(chunks) if protocol is Protocol.CHAT else join_completion(chunks)
        ended = [choice["finish_reason"] for choice in output["choices"]]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise BackendError(
            ErrorCategory.BACKEND_ERROR, "the server's chunks have not the protocol's form"
        ) from error
    if not all(ended):
        raise BackendError(ErrorCategory.UNAVAILABLE, "the server broke off its answer")
    return output
