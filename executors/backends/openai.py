"""Any server of the OpenAI protocol: vLLM, SGLang, llama.cpp and others, over HTTP.

Completions and chats are streamed from the server, so that closing the connection stops them and
the time to the first token is known. What it serves is asked at start; an answer by another model
is found out from the answer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from executors.backends.base import (
    BackendError,
    BackendInfo,
    Call,
    Completion,
    Load,
    SelfTest,
)
from executors.backends.golden import ERROR_MAX, Golden, proven_error, read_golden
from executors.backends.http import Answer, Server, read_key, when_ready
from executors.backends.openai_dialect import (
    ASK_FOR_LOAD,
    LOAD_HEADER,
    Dialect,
    Listing,
    PriorityOrder,
    answers_for,
    body_of,
    load_in_header,
    load_in_metrics,
    read_listing,
)
from executors.backends.openai_server import (
    METRICS_BYTES_MAX,
    adapters_of_llama_cpp,
    engine_of,
    tokenizer_of,
)
from executors.backends.openai_stream import joined, read_stream
from executors.backends.payload import Protocol, protocol_of
from executors.backends.self_test import probe_of, self_test_of
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.capability import Capability
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory

SPARE_CONNECTIONS = 2
"""Beside one a slot: for load and for a self-test while all slots are busy."""
_PATHS = {
    Protocol.COMPLETION: "completions",
    Protocol.CHAT: "chat/completions",
    Protocol.EMBEDDING: "embeddings",
}
_TESTS: tuple[dict[str, Any], ...] = (
    {"prompt": "The", "max_tokens": 4, "temperature": 0},
    {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0},
    {"input": ["Hello"]},
)
"""One of them suits every model: what it completes, chats or embeds."""
_ANOTHER_FORM = (
    ErrorCategory.BAD_REQUEST,
    ErrorCategory.MODEL_NOT_FOUND,
    ErrorCategory.BACKEND_ERROR,
)
"""How servers say that a model does not complete, or does not chat."""


class OpenAIOptions(BackendOptions):
    """Options of backend `openai`."""

    url: str | None = None
    """Required: of the server, ending in /v1."""
    api_key_file: Path | None = None
    """A file with the key alone: a key in a flag or a variable is seen by others."""
    models: tuple[str, ...] = ()
    """Those of the server's models that this node serves; none: all that it lists."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters beside those that the server lists."""
    server: Dialect | None = None
    """vllm, sglang, llama.cpp or other: how it is told of an adapter. Default: by its own word."""
    priority_order: PriorityOrder = "none"
    """lower_first (vLLM with --scheduling-policy priority), higher_first (SGLang with
    --enable-priority-scheduling) or none: nothing is sent."""
    run_within_s: float = Field(default=600.0, gt=0)
    """For one request in the server, its queue included; one that takes longer is given up."""
    golden: dict[str, Path] = Field(default_factory=dict)
    """By model the file of its golden inputs; of a model without one any answer is taken."""
    golden_error_max: float = Field(default=ERROR_MAX, ge=0)
    """Largest share of a golden text that is not repeated, or difference of an embedding."""
    device: str | None = None
    """What the server runs on, for results. Default: its address."""


def make(node: NodeOptions) -> OpenAI:
    """Return the backend of a node; raise UsageError."""
    options = read_options(OpenAIOptions, node)
    if options.url is None:
        raise UsageError("backend openai needs --url: of a server, as http://127.0.0.1:8000/v1")
    golden = {model: read_golden(file) for model, file in options.golden.items()}
    headers = {**read_key(options.api_key_file), **ASK_FOR_LOAD}
    server = Server(options.url, headers, node.slots + SPARE_CONNECTIONS)
    return OpenAI(options, server, node.slots, golden)


class OpenAI:
    """One server."""

    def __init__(
        self,
        options: OpenAIOptions,
        server: Server,
        slots: int,
        golden: Mapping[str, tuple[Golden, ...]],
    ) -> None:
        self._options = options
        self._server = server
        self._slots = slots
        self._golden = golden
        self._listing = Listing("other", {}, {}, {}, {})
        self._tokenizers: dict[str, str | None] = {}
        self._load: Load | None = None
        self.info = BackendInfo("openai", "OpenAI protocol", options.device or server.address)

    async def start(self) -> None:
        """Ask the server what it serves, once it answers; raise BackendUnavailable."""
        await self._server.open()
        document = await when_ready(self._server, "models")
        try:
            self._listing = read_listing(document)
        except (KeyError, TypeError, AttributeError):
            raise BackendUnavailable(
                f"{self._server.url}/models lists no models: is this an OpenAI server's /v1?"
            ) from None
        self._listing = self._listing._replace(
            dialect=self._options.server or self._listing.dialect,
            adapters={
                **self._listing.adapters,
                **await self._adapters_apart(),
                **dict.fromkeys(self._options.adapters),
            },
        )
        models = self._options.models or tuple(self._listing.models)
        lacking = [model for model in models if model not in self._listing.models]
        if lacking or not models:
            listed = ", ".join(self._listing.models) or "none"
            raise BackendUnavailable(
                f"{self._server.url} serves no model {', '.join(lacking)}; it lists: {listed}"
            )
        self.info = self.info._replace(
            engine=await engine_of(self._server, self._listing.dialect),
            models=models,
            adapters=tuple(self._listing.adapters),
        )
        for model in self._served:
            self._tokenizers[model] = await tokenizer_of(self._server, model)

    async def self_test(self) -> SelfTest:
        """Run each model's golden inputs, after it has answered in some form."""
        return await self_test_of(
            self._served, self._answer_in_some_form, self._prove, self._server.url
        )

    async def probe(self) -> None:
        """Have each model answer in some form."""
        await probe_of(self._served, self._answer_in_some_form, self._server.url)

    async def infer(self, call: Call) -> Completion:
        """Run one request on the server."""
        self._check_served(call)
        protocol = protocol_of(call.payload)
        if protocol not in _PATHS:
            raise BackendError(
                ErrorCategory.BAD_REQUEST, "payload.inputs: this node speaks the OpenAI protocols"
            )
        dialect, order = self._listing.dialect, self._options.priority_order
        embeds = protocol is Protocol.EMBEDDING
        if embeds and call.adapter is not None and dialect == "llama.cpp":
            raise BackendError(  # it would answer with the base model's
                ErrorCategory.ADAPTER_NOT_FOUND,
                f"the server computes embeddings without adapters, not with {call.adapter}",
            )
        started = time.perf_counter()
        body = body_of(call, dialect, order, tuple(self._listing.adapters))
        if not embeds:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        async with self._server.ask(
            _PATHS[protocol], body, within_s=self._options.run_within_s, adapter=call.adapter
        ) as answer:
            self._note_load(answer)
            if answer.streamed:
                chunks, first_s = await read_stream(answer, call.adapter)
                first_ms = None if first_s is None else (first_s - started) * 1000
                output = joined(protocol, chunks)
            else:
                output, first_ms = await answer.document(), None
        self._check_answer(call, body["model"], protocol, output)
        return Completion(output, output.get("usage"), first_ms)

    async def load(self) -> Load | None:
        """Return what the server told last: with an answer since the last look, or when asked."""
        told, self._load = self._load, None
        if told is not None:
            return told
        try:
            async with self._server.ask("../metrics") as answer:
                page = b"".join([piece async for piece in answer.pieces(METRICS_BYTES_MAX)])
        except BackendError as error:
            if error.category is ErrorCategory.UNAVAILABLE:
                raise
            return None  # it has no such page
        return load_in_metrics(page.decode(errors="replace"))

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    @property
    def _served(self) -> tuple[str, ...]:
        """Return the models by the names that answers give, each once, in the order listed."""
        return tuple(dict.fromkeys(self._listing.models[name] for name in self.info.models))

    def _check_served(self, call: Call) -> None:
        if call.model not in self.info.models:
            raise BackendError(
                ErrorCategory.MODEL_NOT_FOUND,
                f"this node serves {', '.join(self.info.models)}, not {call.model}",
            )
        if call.adapter is None:
            return
        base = self._listing.adapters.get(call.adapter, "")
        if base not in (None, self._listing.models[call.model]):
            raise BackendError(
                ErrorCategory.ADAPTER_NOT_FOUND,
                f"the server has no adapter {call.adapter} for {call.model}",
            )

    def _check_answer(
        self, call: Call, asked: str, protocol: Protocol, output: dict[str, Any]
    ) -> None:
        part = output.get("data" if protocol is Protocol.EMBEDDING else "choices")
        if not isinstance(part, list) or not part:
            raise BackendError(
                ErrorCategory.BACKEND_ERROR, "the server's answer has not the protocol's form"
            )
        answered = output.get("model")
        if not answers_for(answered, asked, self._listing.models[call.model]):
            raise BackendError(
                ErrorCategory.BACKEND_ERROR, f"{asked} was asked for, {answered} has answered"
            )

    def _note_load(self, answer: Answer) -> None:
        header = answer.headers.get(LOAD_HEADER)
        if header is not None:
            self._load = load_in_header(header)

    async def _adapters_apart(self) -> dict[str, str | None]:
        if (self._options.server or self._listing.dialect) != "llama.cpp":
            return {}
        return await adapters_of_llama_cpp(self._server)

    async def _prove(self, model: str) -> Capability:
        return Capability(
            device=self.info.device,
            model=model,
            context_tokens=self._listing.context_tokens.get(model),
            precision=self._listing.precision.get(model),
            lora=any(of in (None, model) for of in self._listing.adapters.values()),
            max_concurrency=self._slots,
            golden_error=await self._golden_error(model),
            tokenizer_digest=self._tokenizers.get(model),
            validated_at_ms=int(time.time() * 1000),
        )

    async def _golden_error(self, model: str) -> float | None:
        golden = self._golden.get(model)
        if golden is None:
            return None
        error_max = self._options.golden_error_max
        return await proven_error(self.infer, model, self.info.device, golden, error_max)

    async def _answer_in_some_form(self, model: str) -> None:
        """Return once the model has completed, chatted or embedded; raise BackendError."""
        *forms, last = (Call("self-test", model, None, payload) for payload in _TESTS)
        for call in forms:
            try:
                await self.infer(call)
            except BackendError as error:
                if error.category not in _ANOTHER_FORM:
                    raise
            else:
                return
        await self.infer(last)
