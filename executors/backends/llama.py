"""llama.cpp in this process (`xllamacpp`), with one GGUF model and LoRA adapters for it.

The engine serves any model name and any adapter id with the base model and queues without bound:
so names are checked here, and concurrency is the node's slots. Nothing is imported before `start`.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import threading
import time
from collections.abc import Mapping
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
from executors.backends.cpus import share_of_cpus
from executors.backends.golden import ERROR_MAX, Golden, proven_error, read_golden
from executors.backends.llama_engine import embed, load_engine, stream
from executors.backends.llama_trial import PROVE, complaint
from executors.backends.paced import Paced
from executors.backends.payload import Protocol, protocol_of
from executors.backends.profile import parse_profile
from executors.backends.threads import run_on
from executors.backends.trial import tried
from executors.backends.turns import Turns
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.capability import Capability
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

SELF_TEST = {
    "prompt": "The with statement", "max_tokens": 8, "temperature": 0.0, "seed": 1, "logprobs": 1,
}  # fmt: skip
_NOT_THE_CALLERS = ("lora", "id_slot", "cache_prompt", "stream", "stream_options", "model")
"""Fields of the engine's own: they would bypass the adapter check, the slots or the assembly."""


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
    adapters: dict[str, Path] = Field(default_factory=dict)
    """By the name that requests give: LoRA adapters for the model, GGUF files."""
    executors_on_host: int = Field(default=1, ge=1)
    """Nodes with an engine on this host: each takes its share of the processors it may use."""
    threads: int | None = Field(default=None, ge=1)
    """Instead of that share; never more than the processors that the process may use."""
    golden: Path | None = None
    """Of the model's golden inputs; without them nonsense is found out only where it is none of
    language: no numbers, or other words each time."""
    golden_error_max: float = Field(default=ERROR_MAX, ge=0)
    """Largest share of a golden text that is not repeated, or difference of an embedding."""
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
        adapters=options.adapters,
        slots=node.slots,
        context_tokens=options.context_tokens,
        threads=options.threads or share_of_cpus(options.executors_on_host),
        golden=() if options.golden is None else read_golden(options.golden),
        golden_error_max=options.golden_error_max,
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
        adapters: Mapping[str, Path] | None = None,
        golden: tuple[Golden, ...] = (),
        golden_error_max: float = ERROR_MAX,
    ) -> None:
        """Prepare; nothing is loaded before `start`.

        Args:
            model: the name that requests give.
            path: of the GGUF file.
            slots: requests at once.
            context_tokens: prompt and answer of one request.
            aliases: other names that requests may give.
            adapters: GGUF files of LoRA adapters, by the name that requests give.
            threads: at most; never more than the process may use, since the engine spins.
            golden: what the model is known to answer.
            golden_error_max: largest error of their answers.
        """
        self._model = model
        self._path = path
        self._slots = slots
        self._context_tokens = context_tokens
        self._threads = max(1, min(threads, len(os.sched_getaffinity(0))))
        self._workers = ThreadPoolExecutor(slots, thread_name_prefix="llama")
        self._server: Any = None
        self._adapters = dict(adapters or {})
        self._golden, self._golden_error_max = golden, golden_error_max
        self._turns = Turns()
        self._found: dict[str, Any] = {}
        self.info = BackendInfo(
            "llama", "llama.cpp", "cpu", models=(model, *aliases), adapters=tuple(self._adapters)
        )

    async def start(self) -> None:
        """Try the model in a process apart, then load it; raise BackendUnavailable."""
        for path in (self._path, *self._adapters.values()):
            if not path.is_file():
                raise BackendUnavailable(f"no file {path}: give the path of a GGUF file")
        told = {
            "model": self._model,
            "path": str(self._path),
            "adapters": {name: str(path) for name, path in self._adapters.items()},
            "slots": self._slots,
            "context_tokens": self._context_tokens,
            "threads": self._threads,
        }
        self._found = await tried(PROVE, told, f"{self._model} ({self._path})", complaint)
        self._server = await asyncio.get_running_loop().run_in_executor(self._workers, self._load)
        version = importlib.metadata.version("xllamacpp")
        self.info = self.info._replace(engine=f"llama.cpp (xllamacpp {version})")

    async def self_test(self) -> SelfTest:
        """Generate greedily: the same words again, other words with each adapter, golden ones.

        What is broken beyond golden inputs is told first: they would blame the device as well.
        """
        try:
            first = await self._say(None)
            started = time.perf_counter()
            second = await self._say(None)
            took_ms = (time.perf_counter() - started) * 1000
            if not first or first != second:
                raise BackendUnavailable(
                    f"the self-test of {self._model} gave {first[:40]!r}, then {second[:40]!r}: "
                    "the engine or its model is broken"
                )
            for adapter in self._adapters:
                if await self._say(adapter) == first:
                    raise BackendUnavailable(
                        f"adapter {adapter} of {self._model} changes nothing: not made for it?"
                    )
            error = await self._golden_error()
        except BackendError as failed:
            raise BackendUnavailable(f"the self-test of {self._model} failed: {failed}") from failed
        capability = Capability(
            device=self.info.device,
            model=self._model,
            context_tokens=self._context_tokens,
            precision=self._found["precision"],
            lora=bool(self._adapters),
            max_concurrency=self._slots,
            golden_error=error,
            tokenizer_digest=self._found["tokenizer_digest"],
            validated_at_ms=int(time.time() * 1000),
        )
        return SelfTest(took_ms, (capability,))

    async def probe(self) -> None:
        """Generate a few words."""
        try:
            await self._say(None)
        except BackendError as failed:
            raise BackendUnavailable(f"the probe of {self._model} failed: {failed}") from failed

    async def infer(self, call: Call) -> Completion:
        """Run one request on a thread of its own."""
        if call.model not in self.info.models:
            raise BackendError(
                ErrorCategory.MODEL_NOT_FOUND, f"this node serves {self._model}, not {call.model}"
            )
        if call.adapter is not None and call.adapter not in self._adapters:
            raise BackendError(
                ErrorCategory.ADAPTER_NOT_FOUND, f"this node has no adapter {call.adapter}"
            )
        protocol = protocol_of(call.payload)
        if call.adapter is not None and protocol is Protocol.EMBEDDING:
            raise BackendError(  # the engine would answer with the base model's
                ErrorCategory.ADAPTER_NOT_FOUND,
                f"this node computes embeddings without adapters, not with {call.adapter}",
            )
        cancelled = threading.Event()
        async with self._turns.of(protocol is Protocol.EMBEDDING):
            return await run_on(
                self._workers, lambda: self._run(protocol, call, cancelled), cancelled.set
            )

    async def load(self) -> Load | None:
        """Tell nothing: only its node sends it work."""
        return None

    async def close(self) -> None:
        """Free the model."""
        self._server = None
        self._workers.shutdown()

    def _load(self) -> Any:
        return load_engine(
            self._model,
            self._path,
            tuple(self._adapters.values()),
            slots=self._slots,
            context_tokens=self._context_tokens,
            threads=self._threads,
        )

    async def _say(self, adapter: str | None) -> str:
        """Return what it says; raise BackendUnavailable if that is made of no numbers."""
        completion = await self.infer(Call("self-test", self._model, adapter, SELF_TEST))
        (choice,) = completion.output["choices"]
        said = (choice["logprobs"] or {}).get("content", ())
        if any(token["logprob"] is None for token in said):
            what = self._model if adapter is None else f"adapter {adapter} of {self._model}"
            raise BackendUnavailable(f"{what} computes no numbers (NaN): its file is broken")
        text: str = choice["text"]
        return text

    async def _golden_error(self) -> float | None:
        if not self._golden:
            return None
        return await proven_error(
            self.infer, self._model, self.info.device, self._golden, self._golden_error_max
        )

    def _run(self, protocol: Protocol, call: Call, cancelled: threading.Event) -> Completion:
        """Return what the engine gave; runs on a thread of its own."""
        body = {name: value for name, value in call.payload.items() if name not in _NOT_THE_CALLERS}
        engine = self._server
        try:
            if protocol is Protocol.EMBEDDING:
                output = embed(engine.handle_embeddings, body, cancelled)
                return Completion(output, output["usage"])
            body["lora"] = [
                {"id": number, "scale": float(name == call.adapter)}
                for number, name in enumerate(self._adapters)
            ]
            if protocol is Protocol.COMPLETION:
                chunks, first_token_ms = stream(engine.handle_completions, body, cancelled)
                output = join_completion(chunks)
                return Completion(output, output["usage"], first_token_ms)
            if protocol is Protocol.CHAT:
                chunks, first_token_ms = stream(engine.handle_chat_completions, body, cancelled)
                output = join_chat(chunks)
                return Completion(output, output["usage"], first_token_ms)
        except (ValueError, TypeError) as error:
            # The engine raises, instead of answering, at some shapes that it did not expect.
            raise BackendError(ErrorCategory.BAD_REQUEST, f"payload: {error}") from error
        raise BackendError(
            ErrorCategory.BAD_REQUEST, "payload.inputs: this node speaks the OpenAI protocols"
        )
