"""What an HTTP answer that is no result means: which category, which words, when to come back.

Pure. Words of a server travel only where it gave them as JSON: a plain text may be a traceback, and
what it says of credentials stays here.
"""

from __future__ import annotations

import email.utils
from typing import Any

import orjson

from executors.backends.base import BackendError
from schemas.document import to_json
from schemas.outcomes import ErrorCategory

RETRY_AFTER_MAX_MS = 600_000.0
"""Ten minutes: a node is not left alone for ever because of one header."""

_BY_STATUS = {
    400: ErrorCategory.BAD_REQUEST,
    404: ErrorCategory.MODEL_NOT_FOUND,
    408: ErrorCategory.UNAVAILABLE,
    413: ErrorCategory.BAD_REQUEST,
    422: ErrorCategory.BAD_REQUEST,
    429: ErrorCategory.OVERLOADED,
    502: ErrorCategory.UNAVAILABLE,  # a proxy of a server that is away, as 504
    503: ErrorCategory.OVERLOADED,
    504: ErrorCategory.UNAVAILABLE,
}
"""All others are the server's own fault or its set-up's (500, 501, 401, redirects): another node
may do better."""
_TOO_LONG = (
    "exceed_context_size",  # llama.cpp
    "too large to process",  # llama.cpp, embeddings
    "context_length_exceeded",  # OpenAI
    "maximum context length",  # vLLM
    "context length",  # SGLang
)
_REDIRECT, _CREDENTIALS = range(300, 400), (401, 403)


def error_of(
    status: int, body: bytes, retry_after: str | None, now_s: float, *, adapter: str | None
) -> BackendError:
    """Return the error that an answer is.

    Args:
        status: of HTTP, not 200.
        body: as far as it was read.
        retry_after: the header.
        now_s: epoch seconds, for a Retry-After that is a date.
        adapter: that was asked for; what was not found then is the adapter.
    """
    if status in _REDIRECT:
        return BackendError(
            ErrorCategory.BACKEND_ERROR,
            f"the server redirects (HTTP {status}), which is not followed: give its final URL",
        )
    if status in _CREDENTIALS:
        return BackendError(
            ErrorCategory.BACKEND_ERROR,
            f"the server refuses this node (HTTP {status}): check its key",
        )
    said, kind = _words(body)
    category = _BY_STATUS.get(status, ErrorCategory.BACKEND_ERROR)
    if category is ErrorCategory.BAD_REQUEST and _too_long(said, kind):
        category = ErrorCategory.CONTEXT_TOO_LONG
    if category is ErrorCategory.MODEL_NOT_FOUND and adapter is not None:
        category = ErrorCategory.ADAPTER_NOT_FOUND
    message = f"HTTP {status}: {said}" if said else f"HTTP {status} without a reason"
    return BackendError(category, message, retry_after_ms(retry_after, now_s))


def error_in(answer: dict[str, Any], *, adapter: str | None) -> BackendError | None:
    """Return the error that a piece of a streamed answer tells; None if it tells none."""
    error = answer.get("error")
    if error is None:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    status = code if isinstance(code, int) else 500
    return error_of(status, to_json(answer), None, 0.0, adapter=adapter)


def retry_after_ms(header: str | None, now_s: float) -> float | None:
    """Return how long a server asks to be left alone; None if it does not say it readably."""
    if header is None:
        return None
    try:
        wait_s = float(header)
    except ValueError:
        try:
            wait_s = email.utils.parsedate_to_datetime(header).timestamp() - now_s
        except (ValueError, OverflowError):
            return None
    return min(max(wait_s * 1000, 0.0), RETRY_AFTER_MAX_MS) if wait_s == wait_s else None  # noqa: PLR0124  a NaN is none


def _words(body: bytes) -> tuple[str, str]:
    """Return what an error body says and how it calls the error; empty where it is no JSON.

    OpenAI's servers nest an object, the Open Inference Protocol has a string, FastAPI a `detail`.
    """
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    if not isinstance(answer, dict):
        return "", ""
    error = answer.get("error", answer)
    if isinstance(error, str):
        return _clean(error), ""
    if not isinstance(error, dict):
        return "", ""
    said = error.get("message", error.get("detail", ""))
    if isinstance(said, list):
        said = "; ".join(str(one.get("msg", "")) for one in said if isinstance(one, dict))
    return _clean(str(said)), f"{error.get('type')} {error.get('code')}"


def _clean(said: str) -> str:
    return "" if "Traceback" in said else said


def _too_long(said: str, kind: str) -> bool:
    text = f"{kind} {said}".lower()
    return any(sign in text for sign in _TOO_LONG)
