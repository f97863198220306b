"""Any server of the Open Inference Protocol v2 over REST: Triton, MLServer, OVMS, KServe.

Tensors travel as JSON, which every server reads; binary ones are an extension. What a model takes
is asked at start, so that a wrong tensor is the caller's error and not the server's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic import Field

from executors.backends.base import BackendError, BackendInfo, Call, Completion, Load, SelfTest
from executors.backends.golden import ERROR_MAX, Golden, proven_error, read_golden
from executors.backends.http import Server, read_key, when_ready
from executors.backends.payload import Protocol, protocol_of
from executors.backends.self_test import probe_of, self_test_of
from executors.backends.tensors import Input, bad, checked_inputs, read_inputs
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.capability import Capability
from schemas.errors import UsageError
from schemas.outcomes import ErrorCategory

SPARE_CONNECTIONS = 2
"""Beside one a slot: for a self-test while all slots are busy."""


class OipOptions(BackendOptions):
    """Options of backend `oip`."""

    url: str | None = None
    """Required: the server's root, as http://127.0.0.1:8000."""
    api_key_file: Path | None = None
    """A file with the key alone: a key in a flag or a variable is seen by others."""
    models: tuple[str, ...] = ()
    """Required: those that this node serves, as the protocol lists none."""
    golden: dict[str, Path] = Field(default_factory=dict)
    """By model the file of its golden inputs; a model without one is only asked whether it is
    ready."""
    golden_error_max: float = Field(default=ERROR_MAX, gt=0)
    """Largest difference from a golden answer, as a share of its largest number."""
    run_within_s: float = Field(default=600.0, gt=0)
    """For one request in the server, its queue included; one that takes longer is given up."""
    device: str | None = None
    """What the server runs on, for results. Default: its address."""


def make(node: NodeOptions) -> Oip:
    """Return the backend of a node; raise UsageError."""
    options = read_options(OipOptions, node)
    if options.url is None or not options.models:
        raise UsageError(
            "backend oip needs --url of a server's root, as http://127.0.0.1:8000, and "
            "backends.oip.models"
        )
    golden = {model: read_golden(file) for model, file in options.golden.items()}
    server = Server(options.url, read_key(options.api_key_file), node.slots + SPARE_CONNECTIONS)
    return Oip(options, server, node.slots, golden)


class Oip:
    """One server."""

    def __init__(
        self,
        options: OipOptions,
        server: Server,
        slots: int,
        golden: Mapping[str, tuple[Golden, ...]],
    ) -> None:
        self._options = options
        self._server = server
        self._slots = slots
        self._golden = golden
        self._inputs: dict[str, dict[str, Input]] = {}
        device = options.device or server.address
        self.info = BackendInfo("oip", "Open Inference Protocol", device, models=options.models)

    async def start(self) -> None:
        """Ask the server for its models, once it answers; raise BackendUnavailable."""
        await self._server.open()
        await when_ready(self._server, "v2/health/ready", whatever=True)  # Triton says 400
        said = await when_ready(self._server, "v2")
        for model in self._options.models:
            self._inputs[model] = read_inputs(await when_ready(self._server, _path(model)))
        engine = f"{said.get('name', self.info.engine)} {said.get('version', '')}".strip()
        self.info = self.info._replace(engine=engine)

    async def self_test(self) -> SelfTest:
        """Run the golden inputs of each model; one without any is asked whether it is ready."""
        return await self_test_of(self._options.models, self._answer, self._prove, self._server.url)

    async def probe(self) -> None:
        """Run each model's first golden input; one without any is asked whether it is ready."""
        await probe_of(self._options.models, self._answer, self._server.url)

    async def infer(self, call: Call) -> Completion:
        """Run one request on the server."""
        if call.model not in self._options.models:
            raise BackendError(
                ErrorCategory.MODEL_NOT_FOUND,
                f"this node serves {', '.join(self._options.models)}, not {call.model}",
            )
        if call.adapter is not None:
            raise BackendError(
                ErrorCategory.ADAPTER_NOT_FOUND, "the Open Inference Protocol knows no adapters"
            )
        if protocol_of(call.payload) is not Protocol.TENSORS:
            raise bad("payload: this node speaks tensors; give inputs")
        inputs = checked_inputs(call.payload["inputs"], self._inputs.get(call.model, {}))
        body: dict[str, Any] = {"id": call.request_id, "inputs": [*inputs.values()]}
        wanted = call.payload.get("outputs")
        if wanted is not None:
            body["outputs"] = _named(wanted)
        async with self._server.ask(
            f"{_path(call.model)}/infer", body, within_s=self._options.run_within_s
        ) as answer:
            output = await answer.document()
        _check_answer(call.model, output)
        return Completion(output)

    async def load(self) -> Load | None:
        """Tell nothing: the protocol has no load."""
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    async def _prove(self, model: str) -> Capability:
        return Capability(
            device=self.info.device,
            model=model,
            shapes={name: one.shape for name, one in self._inputs[model].items()},
            max_concurrency=self._slots,
            golden_error=await self._golden_error(model),
            validated_at_ms=int(time.time() * 1000),
        )

    async def _answer(self, model: str) -> None:
        golden = self._golden.get(model)
        if golden is None:
            async with self._server.ask(f"{_path(model)}/ready"):
                return
        await self.infer(Call("probe", model, None, golden[0].payload))

    async def _golden_error(self, model: str) -> float | None:
        golden = self._golden.get(model)
        if golden is None:
            return None
        error_max = self._options.golden_error_max
        return await proven_error(self.infer, model, self.info.device, golden, error_max)


def _path(model: str) -> str:
    return f"v2/models/{quote(model, safe='')}"


def _named(outputs: Any) -> list[dict[str, str]]:
    """Return the outputs that a payload wants, by name alone: parameters could ask for binary."""
    try:
        return [{"name": str(one["name"])} for one in outputs]
    except (KeyError, TypeError):
        raise bad("payload.outputs: give a list of objects with a name") from None


def _check_answer(model: str, output: dict[str, Any]) -> None:
    outputs = output.get("outputs")
    if (
        not isinstance(outputs, list)
        or not outputs
        or not all(isinstance(one, dict) and isinstance(one.get("data"), list) for one in outputs)
    ):
        raise BackendError(
            ErrorCategory.BACKEND_ERROR, "the server's answer has not the protocol's form"
        )
    if output.get("model_name", model) != model:
        raise BackendError(
            ErrorCategory.BACKEND_ERROR,
            f"{model} was asked for, {output['model_name']} has answered",
        )
