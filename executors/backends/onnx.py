"""ONNX Runtime in this process: one model on one named execution provider.

The device is believed only after it has answered the model's golden input, first in a process of
its own. Nothing of the engine is imported before `start`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from executors.backends.base import BackendError, BackendInfo, Call, Completion, Load, SelfTest
from executors.backends.golden import ERROR_MAX, Golden, read_golden
from executors.backends.payload import Protocol, protocol_of
from executors.backends.threads import run_on
from executors.backends.trial import tried
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.capability import Capability
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

if TYPE_CHECKING:
    from executors.backends.onnx_session import Session

_PROVE = "executors.backends.onnx_session:prove"


class OnnxOptions(BackendOptions):
    """Options of backend `onnx`."""

    model_name: str
    """Name that requests give for the model at `model_path`."""
    model_path: Path
    """Of an ONNX file."""
    golden: Path
    """Of the golden inputs: a JSON list of {"payload", "output"}, made where the model is right."""
    golden_error_max: float = Field(default=ERROR_MAX, gt=0)
    """Largest difference from a golden answer, as a share of its largest number."""
    provider: str = "CPUExecutionProvider"
    """The execution provider, by ONNX Runtime's name; all of the model runs on it, or none."""
    provider_options: dict[str, str] = Field(default_factory=dict)
    """Passed on to it."""
    dimensions: dict[str, int] = Field(default_factory=dict)
    """Sizes for the model's free dimensions, by their names, where the device wants them fixed."""
    threads: int = Field(default=1, ge=1)
    """Of the CPU, for one request."""
    device: str | None = None
    """What results call it. Default: the provider."""


def make(node: NodeOptions) -> Onnx:
    """Return the backend of a node; raise UsageError."""
    options = read_options(OnnxOptions, node)
    return Onnx(options, node.slots, read_golden(options.golden))


class Onnx:
    """One ONNX model."""

    def __init__(self, options: OnnxOptions, slots: int, golden: tuple[Golden, ...]) -> None:
        self._options = options
        self._golden = golden
        # The process apart is told the golden inputs themselves: a file may have changed meanwhile.
        self._told = {**options.model_dump(mode="json"), "golden": [[*one] for one in golden]}
        self._slots = slots
        self._workers = ThreadPoolExecutor(slots, thread_name_prefix="onnx")
        self._session: Session | None = None
        device = options.device or options.provider
        self.info = BackendInfo("onnx", "ONNX Runtime", device, models=(options.model_name,))

    async def start(self) -> None:
        """Try model and device in a process apart, then load; raise BackendUnavailable."""
        what = f"{self._options.model_name} on {self._options.provider}"
        await tried(_PROVE, self._told, what)
        self._session = await run_on(self._workers, self._load, lambda: None)

    async def self_test(self) -> SelfTest:
        """Run the golden inputs where the node's requests run."""
        from executors.backends.onnx_session import golden_error  # noqa: PLC0415  an extra

        started = time.perf_counter()
        await self.probe()
        took_ms = (time.perf_counter() - started) * 1000
        session, told = self._started(), self._told
        error = await run_on(self._workers, lambda: golden_error(session, told), lambda: None)
        capability = Capability(
            device=self.info.device,
            model=self._options.model_name,
            shapes=session.shapes,
            precision=session.precision,
            max_concurrency=self._slots,
            golden_error=error,
            validated_at_ms=int(time.time() * 1000),
        )
        return SelfTest(took_ms, (capability,))

    async def probe(self) -> None:
        """Run the first golden input, whatever it answers."""
        first = self._golden[0]
        try:
            await self.infer(Call("probe", self._options.model_name, None, first.payload))
        except BackendError as failed:
            raise BackendUnavailable(
                f"the probe of {self._options.model_name} failed: {failed}"
            ) from failed

    async def infer(self, call: Call) -> Completion:
        """Run one request on a thread of its own."""
        from executors.backends.onnx_session import Stop  # noqa: PLC0415  an extra

        if call.model != self._options.model_name:
            raise BackendError(
                ErrorCategory.MODEL_NOT_FOUND,
                f"this node serves {self._options.model_name}, not {call.model}",
            )
        if call.adapter is not None:
            raise BackendError(
                ErrorCategory.ADAPTER_NOT_FOUND, f"this node has no adapter {call.adapter}"
            )
        if protocol_of(call.payload) is not Protocol.TENSORS:
            raise BackendError(
                ErrorCategory.BAD_REQUEST, "payload: this node speaks tensors; give inputs"
            )
        session, stop = self._started(), Stop()
        answer = await run_on(self._workers, lambda: session.run(call.payload, stop), stop.now)
        return Completion({"model_name": call.model, "id": call.request_id, **answer})

    async def load(self) -> Load | None:
        """Tell nothing: only its node sends it work."""
        return None

    async def close(self) -> None:
        """Free the model."""
        self._session = None
        self._workers.shutdown()

    def _started(self) -> Session:
        if self._session is None:
            raise BackendError(ErrorCategory.UNAVAILABLE, "this node has not started")
        return self._session

    def _load(self) -> Session:
        import onnxruntime  # noqa: PLC0415  an extra

        from executors.backends.onnx_session import Session  # noqa: PLC0415  an extra

        version: Any = onnxruntime.__version__
        self.info = self.info._replace(engine=f"ONNX Runtime {version}")
        return Session(self._told)
