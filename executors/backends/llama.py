"""llama.cpp in this process (`xllamacpp`), with one GGUF model.

The engine serves any model name and any adapter id with the base model and queues without bound:
so names are checked here, and concurrency is the node's slots. Nothing is imported before `start`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import Field

from executors.backends.base import (
    Backend,
    BackendError,
    BackendInfo,
    Call,
    Completion,
    Load,
    SelfTest,
)
from executors.backends.chunks import join_chat, join_completion
from executors.backends.paced import Paced
from executors.backends.payload import Protocol, protocol_of
from executors.backends.profile import parse_profile
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.capability import Capability
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

SELF_TEST = {"prompt": "The with statement", "max_tokens": 8, "temperature": 0.0, "seed": 1}
_NOT_THE_CALLERS = ("lora", "id_slot", "cache_prompt", "stream", "stream_options", "model")
"""Fields of the engine's own: they would bypass the adapter check, the slots or the assembly."""
_TOO_LONG = ("exceed_context_size_error", "too large to process")
"""How the engine says it: a type for completions, only a text for embeddings."""
_BAD_REQUEST, _OVERLOADED = range(400, 500), (429, 503)


class LlamaOptions(BackendOptions):
    """Options of backend `llama`."""

    model_name: str
    """Name that requests give for the model at `model_path`."""
    model_path: Path
    """Of a GGUF file."""
    model_aliases: tuple[str, ...] = ()
    """Other names of the same model: a registry may say something else of each."""
    context_tokens: int = Field(default=512, ge=1)
    """Prompt and answer of one request; what the small model of the repository was trained on."""
    threads: int = Field(default=1, ge=1)
    """One: on a shared host more threads wait for each other, spinning."""
    profile: str | None = None
    """`fixed:MS` or the path of a TOML file: slowed down to it, and marked emulated."""
    device: str | None = None
    """What the made-up hardware of a profile calls itself in results."""


def make(node: NodeOptions) -> Backend:
    """Return the backend of a node; raise UsageError."""
    options = read_options(LlamaOptions, node)
    engine = Llama(
        options.model_name,
        options.model_path,
        aliases=options.model_aliases,
        slots=node.slots,
        context_tokens=options.context_tokens,
        threads=options.threads,
    )
    if options.profile is None:
        return engine
    return Paced(engine, parse_profile(options.profile), options.device or f"emulated {node.pool}")


class Llama:
    """One GGUF model on the CPU."""

    def __init__(
        self,
        model: str,
        path: Path,
        *,
        slots: int,
        context_tokens: int,
        threads: int,
        aliases: tuple[str, ...] = (),
    ) -> None:
        """Prepare; nothing is loaded before `start`.

        Args:
            model: the name that requests give.
            path: of the GGUF file.
            slots: requests at once.
            context_tokens: prompt and answer of one request.
            aliases: other names that requests may give.
            threads: at most; never more than the process may use, since the engine spins.
        """
        self._model = model
        self._path = path
        self._slots = slots
        self._context_tokens = context_tokens
        self._threads = max(1, min(threads, len(os.sched_getaffinity(0))))
        self._workers = ThreadPoolExecutor(slots, thread_name_prefix="llama")
        self._server: Any = None
        self.info = BackendInfo("llama", "llama.cpp", "cpu", models=(model, *aliases))

    async def start(self) -> None:
        """Load the model; raise BackendUnavailable if there is no engine or no such file."""
        if not self._path.is_file():
            raise BackendUnavailable(f"no model file {self._path}: give the path of a GGUF file")
        self._server = await asyncio.get_running_loop().run_in_executor(self._workers, self._load)
        version = importlib.metadata.version("xllamacpp")
        self.info = self.info._replace(engine=f"llama.cpp (xllamacpp {version})")

    async def self_test(self) -> SelfTest:
        """Generate greedily twice; the same words must come, as many as asked for."""
        call = Call("self-test", self._model, None, SELF_TEST)
        try:
            first = await self.infer(call)
            started = time.perf_counter()
            second = await self.infer(call)
        except BackendError as error:
            raise BackendUnavailable(f"the self-test of {self._model} failed: {error}") from error
        took_ms = (time.perf_counter() - started) * 1000
        said = [completion.output["choices"][0]["text"] for completion in (first, second)]
        if not said[0] or said[0] != said[1]:
            raise BackendUnavailable(
                f"the self-test of {self._model} gave {said[0][:40]!r}, then {said[1][:40]!r}: "
                "the engine or its model is broken"
            )
        capability = Capability(
            device=self.info.device,
            model=self._model,
            context_tokens=self._context_tokens,
            max_concurrency=self._slots,
            validated_at_ms=int(time.time() * 1000),
        )
        return SelfTest(took_ms, (capability,))

    async def infer(self, call: Call) -> Completion:
        """Run one request on a thread of its own."""
        if call.model not in self.info.models:
            raise BackendError(
                ErrorCategory.MODEL_NOT_FOUND, f"this node serves {self._model}, not {call.model}"
            )
        if call.adapter is not None:
            raise BackendError(
                ErrorCategory.ADAPTER_NOT_FOUND, f"this node has no adapter {call.adapter}"
            )
        protocol = protocol_of(call.payload)
        cancelled = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(
            self._workers, self._run, protocol, call.payload, cancelled
        )
        try:
            output = await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await _ended(work)
            raise
        return Completion(output, output.get("usage"))

    async def load(self) -> Load | None:
        """Tell nothing: only its node sends it work."""
        return None

    async def close(self) -> None:
        """Free the model."""
        self._server = None
        self._workers.shutdown()

    def _load(self) -> Any:
        # When the engine aborts it would hold the process for a minute to attach a debugger.
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")
        try:
            import xllamacpp  # noqa: PLC0415  100 MB of engine that other backends do without
        except ImportError as error:
            raise BackendUnavailable(
                "backend llama needs xllamacpp: pip install 'overspill[local]'"
            ) from error
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self._path)
        parameters.model_alias = {self._model}
        # With 3, 5 or 6 sequences and mean pooling this engine aborts the process: powers of two.
        sequences = 1 << (self._slots - 1).bit_length()
        parameters.n_parallel = sequences
        # The engine divides the context among its sequences.
        parameters.n_ctx = self._context_tokens * sequences
        parameters.cpuparams.n_threads = self._threads
        parameters.cpuparams_batch.n_threads = self._threads
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        parameters.verbosity = 0  # else several lines a request on standard error
        parameters.cache_ram_mib = 0  # else a prompt cache that may grow to 8 GiB
        parameters.fit_params = False  # spares probing the memory: the model is named, not sought
        # The engine opens an HTTP port on loopback whether one wants it or not: nobody gets in.
        parameters.api_keys = [secrets.token_hex(16)]
        parameters.n_threads_http = 1
        parameters.endpoint_slots = False
        parameters.ui = False
        try:
            return xllamacpp.Server(parameters)
        except (RuntimeError, ValueError) as error:
            raise BackendUnavailable(
                f"llama.cpp cannot load {self._path}: it is no GGUF, or memory is short"
            ) from error

    def _run(
        self, protocol: Protocol, payload: dict[str, Any], cancelled: threading.Event
    ) -> dict[str, Any]:
        """Return the response body; runs on a thread of its own."""
        body = {name: value for name, value in payload.items() if name not in _NOT_THE_CALLERS}
        try:
            if protocol is Protocol.EMBEDDING:
                return _checked(self._server.handle_embeddings(body))
            if protocol is Protocol.COMPLETION:
                return join_completion(_stream(self._server.handle_completions, body, cancelled))
            if protocol is Protocol.CHAT:
                return join_chat(_stream(self._server.handle_chat_completions, body, cancelled))
        except (ValueError, TypeError) as error:
            # The engine raises, instead of answering, at some shapes that it did not expect.
            raise BackendError(ErrorCategory.BAD_REQUEST, f"payload: {error}") from error
        raise BackendError(
            ErrorCategory.BAD_REQUEST, "payload.inputs: this node speaks the OpenAI protocols"
        )


def _stream(
    handle: Callable[[dict[str, Any], Callable[[dict[str, Any]], bool]], Any],
    body: dict[str, Any],
    cancelled: threading.Event,
) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = []

    def take(chunk: dict[str, Any]) -> bool:
        chunks.append(chunk)
        return cancelled.is_set()

    handle({**body, "stream": True, "stream_options": {"include_usage": True}}, take)
    answer = [_checked(chunk) for chunk in chunks]
    ended = (piece for chunk in answer for piece in chunk["choices"] if piece["finish_reason"])
    if next(ended, None) is None and not cancelled.is_set():
        raise BackendError(ErrorCategory.BACKEND_ERROR, "the engine broke off its answer")
    return answer


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
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


async def _ended(work: asyncio.Future[Any]) -> None:
    """Wait until the thread has ended, however often we are cancelled: the slot is its."""
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            continue
    work.exception()
