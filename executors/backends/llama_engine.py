"""The llama.cpp engine as `xllamacpp` has it: how it is loaded, called, stopped, and says no.

Knows the library and none of our calls. It imports the library only when an engine is loaded.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from executors.backends.base import BackendError
from runtime.extras import install_command
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

Body = dict[str, Any]

_TOO_LONG = ("exceed_context_size_error", "too large to process")
"""How the engine says it: a type for completions, only a text for embeddings."""
_BAD_REQUEST, _OVERLOADED = range(400, 500), (429, 503)


class Streamed(NamedTuple):
    """An answer in chunks; `first_token_ms` is None if it has no text."""

    chunks: list[Body]
    first_token_ms: float | None


def load_engine(
    model: str,
    path: Path,
    adapters: Sequence[Path],
    *,
    slots: int,
    context_tokens: int,
    threads: int,
    api_key: str | None = None,
    shows_errors: bool = False,
) -> Any:
    """Return a loaded engine (`xllamacpp.Server`); raise BackendUnavailable.

    Args:
        model: what it calls itself in answers.
        adapters: LoRA adapters; their ids are their places here, and none is applied unless asked.
        api_key: for the engine's own server; without one nobody gets in.
        shows_errors: on standard error.
    """
    # When the engine aborts it would hold the process for a minute to attach a debugger.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    try:
        import xllamacpp  # noqa: PLC0415  100 MB of engine that other backends do without
    except ImportError as error:
        raise BackendUnavailable(
            f"backend llama needs xllamacpp: {install_command('llama')}"
        ) from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {model}
    # With 3, 5 or 6 sequences and mean pooling this engine aborts the process: powers of two.
    sequences = 1 << (slots - 1).bit_length()
    parameters.n_parallel = sequences
    # The engine divides the context among its sequences.
    parameters.n_ctx = context_tokens * sequences
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.embedding = True
    parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    parameters.lora_adapters = [_adapter(xllamacpp, adapter) for adapter in adapters]
    parameters.lora_init_without_apply = True
    parameters.verbosity = int(shows_errors)  # 3, the usual, is several lines a request
    parameters.cache_ram_mib = 0  # else a prompt cache that may grow to 8 GiB
    parameters.fit_params = False  # spares probing the memory: the model is named, not sought
    # The engine opens an HTTP port on loopback whether one wants it or not.
    parameters.api_keys = [api_key or secrets.token_hex(16)]
    parameters.n_threads_http = 1
    parameters.endpoint_metrics = True
    parameters.endpoint_slots = False
    parameters.ui = False
    files = ", ".join(str(file) for file in (path, *adapters))
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError) as error:
        raise BackendUnavailable(
            f"llama.cpp cannot load {files}: one is no GGUF or no adapter of that model, or memory "
            "is short"
        ) from error


def stream(
    handle: Callable[[Body, Callable[[Body], bool]], Any], body: Body, cancelled: threading.Event
) -> Streamed:
    """Return the chunks of an answer, fewer if it was cancelled; raise BackendError.

    Only an answer that streams can be stopped, and only at a token.
    """
    chunks: list[Body] = []
    started = time.perf_counter()
    first_token_ms: float | None = None

    def take(chunk: Body) -> bool:
        nonlocal first_token_ms
        chunks.append(chunk)
        if first_token_ms is None and any(map(_text, chunk.get("choices", ()))):
            first_token_ms = (time.perf_counter() - started) * 1000
        return cancelled.is_set()

    handle({**body, "stream": True, "stream_options": {"include_usage": True}}, take)
    answer = [checked(chunk) for chunk in chunks]
    ended = (piece for chunk in answer for piece in chunk["choices"] if piece["finish_reason"])
    if next(ended, None) is None and not cancelled.is_set():
        raise BackendError(ErrorCategory.BACKEND_ERROR, "the engine broke off its answer")
    return Streamed(answer, first_token_ms)


def embed(handle: Callable[[Body], Body], body: Body, cancelled: threading.Event) -> Body:
    """Return the embeddings of all inputs, fewer if it was cancelled; raise BackendError.

    One input a call: a call that does not stream cannot be stopped.
    """
    given = body["input"]
    many = isinstance(given, list) and any(isinstance(one, str | list) for one in given)
    answers = []
    for one in given if many else [given]:
        if cancelled.is_set():
            break
        answers.append(checked(handle({**body, "input": one})))
    data = [vector for answer in answers for vector in answer["data"]]
    tokens = sum(answer["usage"]["prompt_tokens"] for answer in answers)
    return {
        **(answers[0] if answers else {}),
        "data": [{**vector, "index": index} for index, vector in enumerate(data)],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def checked(answer: Body) -> Body:
    """Return the answer if it is none of an error; raise BackendError."""
    error = answer.get("error")
    if error is None:
        return answer
    message, code = str(error.get("message", "")), int(error.get("code", 500))
    if any(sign in f"{error.get('type')} {message}" for sign in _TOO_LONG):
        raise BackendError(ErrorCategory.CONTEXT_TOO_LONG, message)
    if code in _OVERLOADED:
        raise BackendError(ErrorCategory.OVERLOADED, message)
    if code in _BAD_REQUEST:
        raise BackendError(ErrorCategory.BAD_REQUEST, message)
    raise BackendError(ErrorCategory.BACKEND_ERROR, message)


def _adapter(xllamacpp: Any, path: Path) -> Any:
    adapter = xllamacpp.CommonAdapterLoraInfo()
    adapter.path = str(path)
    adapter.scale = 0.0
    return adapter


def _text(piece: Body) -> str | None:
    text: str | None = piece.get("text") or (piece.get("delta") or {}).get("content")
    return text
