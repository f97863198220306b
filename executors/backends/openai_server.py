"""What a server of the OpenAI protocol says of itself beside its models.

Knows the questions of each kind of server, and no request.
"""

from __future__ import annotations

from pathlib import Path

import orjson

from executors.backends.base import BackendError
from executors.backends.http import Server
from executors.backends.openai_dialect import Dialect
from executors.backends.tokenizer import QUESTION, digest_of
from schemas.errors import BackendUnavailable
from schemas.topics import MIB

METRICS_BYTES_MAX = 4 * MIB
"""vLLM's page has about 100 kB."""


async def adapters_of_llama_cpp(server: Server) -> dict[str, str | None]:
    """Return the adapters that llama.cpp lists apart, by the names of their files."""
    try:
        async with server.ask("../lora-adapters") as answer:
            listed = orjson.loads(b"".join([p async for p in answer.pieces(METRICS_BYTES_MAX)]))
        ordered = sorted(listed, key=lambda one: int(one["id"]))
        return {Path(one["path"]).stem: None for one in ordered}
    except (BackendError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BackendUnavailable(
            f"{server.url} is llama.cpp and does not list its adapters: {error}"
        ) from error


async def engine_of(server: Server, dialect: Dialect) -> str:
    """Return the server's software, with its version if it tells it."""
    name = "OpenAI protocol" if dialect == "other" else dialect
    try:
        version = (await server.document("../version")).get("version")
    except BackendError:
        version = None
    return f"{name} {version}" if isinstance(version, str) else name


async def tokenizer_of(server: Server, model: str) -> str | None:
    """Return the digest of a model's tokenizer; None of a server that does not show it."""
    try:
        return digest_of(await server.document("../tokenize", {**QUESTION, "model": model}))
    except BackendError:
        return None
