"""Tries a model on llama.cpp in a process of its own, and asks the engine there what the model is.

The engine aborts on files that it did not expect, and writes what is wrong to standard error alone.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import secrets
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import orjson

from executors.backends.base import BackendError
from executors.backends.llama_engine import embed, load_engine, stream
from executors.backends.openai_dialect import read_listing
from executors.backends.tokenizer import QUESTION, digest_of
from schemas.document import to_json
from schemas.errors import BackendUnavailable

PROVE = f"{__name__}:prove"
ASK_WITHIN_S = 10.0
_ADAPTER = re.compile(r"^[\d.]+ E .*failed to load lora adapter '(.*)'", re.MULTILINE)
_ERROR = re.compile(r"^[\d.]+ E (.*)$", re.MULTILINE)


def prove(told: dict[str, Any]) -> dict[str, Any]:
    """Load the model, run it once alone and once with each adapter, return what it is.

    What a trial runs.

    Args:
        told: what `load_engine` takes, as JSON; adapters by name.

    Raises:
        BackendUnavailable: the engine cannot load model or adapters, or fails at first words.
    """
    key = secrets.token_hex(16)
    engine = load_engine(
        told["model"],
        Path(told["path"]),
        [Path(adapter) for adapter in told["adapters"].values()],
        slots=told["slots"],
        context_tokens=told["context_tokens"],
        threads=told["threads"],
        api_key=key,
        shows_errors=True,
    )
    what = told["model"]
    try:
        _speak(engine, {})
        with contextlib.suppress(BackendError):  # a model may have none; an abort would be its end
            embed(engine.handle_embeddings, {"input": "The"}, threading.Event())
        for number, adapter in enumerate(told["adapters"]):
            what = f"adapter {adapter} of {told['model']}"
            sys.stderr.write(f"trying {what}\n")  # the last words, should the engine abort
            _speak(engine, {"lora": [{"id": number, "scale": 1.0}]})
    except BackendError as error:
        raise BackendUnavailable(f"{what} fails at its first words: {error}") from error
    listed = read_listing(_ask(engine.listening_address, "/v1/models", key))
    tokens = _ask(engine.listening_address, "/tokenize", key, QUESTION)
    return {
        "precision": listed.precision.get(told["model"]),
        "tokenizer_digest": digest_of(tokens),
    }


def complaint(printed: str) -> str:
    """Return the engine's first error, after the file of an adapter that it blames; or nothing."""
    error, adapter = _ERROR.search(printed), _ADAPTER.search(printed)
    told = ([Path(adapter[1]).name] if adapter else []) + ([error[1]] if error else [])
    return " ".join(": ".join(told).split())


def _speak(engine: Any, how: dict[str, Any]) -> None:
    body = {"prompt": "The", "max_tokens": 1, **how}
    stream(engine.handle_completions, body, threading.Event())


def _ask(address: str, path: str, key: str, body: dict[str, Any] | None = None) -> Any:
    """Return what the engine's own server answers; an empty listing if it does not."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    data = None if body is None else to_json(body)
    request = urllib.request.Request(address + path, data, headers)  # noqa: S310  loopback
    # Whatever proxy this host has, the engine is in this process.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=ASK_WITHIN_S) as answer:
            return orjson.loads(answer.read())
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
        return {"data": []}
