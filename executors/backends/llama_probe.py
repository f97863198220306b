"""Tries a model on llama.cpp in a process of its own, and asks the engine there what the model is.

The engine aborts on files that it did not expect, and writes what is wrong to standard error alone.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import secrets
import threading
import urllib.request
from pathlib import Path
from typing import Any

import orjson

from executors.backends.base import BackendError
from executors.backends.llama_engine import embed, load_engine, stream
from executors.backends.openai_dialect import read_listing
from executors.backends.tokenizer import QUESTION, digest_of
from schemas.errors import BackendUnavailable

PROVE = f"{__name__}:prove"
ASK_WITHIN_S = 10.0
_ERROR = re.compile(r"^[\d.]+ E (.*)$", re.MULTILINE)


def prove(told: dict[str, Any]) -> dict[str, Any]:
    """Load the model, run it once, return what it is; what a probe runs.

    Args:
        told: what `load_engine` takes, as JSON.

    Raises:
        BackendUnavailable: the engine cannot load it, or fails at its first words.
    """
    key = secrets.token_hex(16)
    engine = load_engine(
        told["model"],
        Path(told["path"]),
        [Path(adapter) for adapter in told["adapters"]],
        slots=told["slots"],
        context_tokens=told["context_tokens"],
        threads=told["threads"],
        api_key=key,
        shows_errors=True,
    )
    try:
        stream(engine.handle_completions, {"prompt": "The", "max_tokens": 1}, threading.Event())
        with contextlib.suppress(BackendError):  # a model may have none; an abort would be its end
            embed(engine.handle_embeddings, {"input": "The"}, threading.Event())
    except BackendError as error:
        raise BackendUnavailable(f"{told['model']} fails at its first words: {error}") from error
    listed = read_listing(_ask(engine.listening_address, "/v1/models", key))
    tokens = _ask(engine.listening_address, "/tokenize", key, QUESTION)
    return {
        "precision": listed.precision.get(told["model"]),
        "tokenizer_digest": digest_of(tokens),
    }


def complaint(printed: str) -> str:
    """Return the first error that the engine printed; empty if it printed none."""
    found = _ERROR.search(printed)
    return "" if found is None else " ".join(found[1].split())


def _ask(address: str, path: str, key: str, body: dict[str, Any] | None = None) -> Any:
    """Return what the engine's own server answers; an empty listing if it does not."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(address + path, data, headers)  # noqa: S310  loopback
    # Whatever proxy this host has, the engine is in this process.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ASK_WITHIN_S) as answer:
            return orjson.loads(answer.read())
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
        return {"data": []}
