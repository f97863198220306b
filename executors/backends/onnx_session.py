"""One ONNX model on one execution provider, asked in tensors of the Open Inference Protocol.

The only place that imports ONNX Runtime and numpy, so it is imported where they are wanted. Asked
for a device that is not there, ONNX Runtime warns and takes the CPU: here that is a refusal.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from executors.backends.base import BackendError
from executors.backends.golden import Golden, accept, error_of
from executors.backends.tensors import Input, bad, checked_inputs
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory

CPU = "CPUExecutionProvider"
_DTYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32,
    "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BYTES": np.object_,
}  # fmt: skip
_DATATYPES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}
_TYPES = {
    "tensor(bool)": "BOOL", "tensor(float16)": "FP16", "tensor(float)": "FP32",
    "tensor(double)": "FP64", "tensor(string)": "BYTES",
    **{f"tensor({name.lower()})": name for name in _DTYPES if "INT" in name},
}  # fmt: skip
_QUIET = 3  # errors alone: its warnings are about speed, one a node of the graph


class Stop:
    """Stops a run from another thread."""

    def __init__(self) -> None:
        self.options = ort.RunOptions()

    def now(self) -> None:
        """Let the run end as soon as the engine looks."""
        self.options.terminate = True


class Session:
    """A model that is ready to run."""

    def __init__(self, told: dict[str, Any]) -> None:
        """Open it; raise BackendUnavailable. `told` is what `Onnx` makes of its options."""
        provider, path = told["provider"], Path(told["model_path"])
        available = ort.get_available_providers()
        if provider not in available:
            raise BackendUnavailable(
                f"no {provider} in this ONNX Runtime, which has {', '.join(available)}: install "
                "the build for the device"
            )
        if not path.is_file():
            raise BackendUnavailable(f"no model file {path}: give the path of an ONNX file")
        options = ort.SessionOptions()
        options.intra_op_num_threads = told["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = _QUIET
        for name, size in told["dimensions"].items():
            options.add_free_dimension_override_by_name(name, size)
        if provider != CPU:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=[(provider, told["provider_options"])]
            )
        except Exception as error:  # its errors have no base of their own
            said = " ".join(str(error).split())[:200]
            raise BackendUnavailable(f"{path} cannot run on {provider}: {said}") from error
        placed = self._session.get_providers()
        if placed[0] != provider:
            raise BackendUnavailable(f"{path} was placed on {placed[0]}, not on {provider}")
        self._inputs = {
            one.name: Input(
                _TYPES.get(one.type, one.type),
                tuple(size if isinstance(size, int) else -1 for size in one.shape),
            )
            for one in self._session.get_inputs()
        }

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input; -1 where any size will do."""
        return {name: wanted.shape for name, wanted in self._inputs.items()}

    @property
    def precision(self) -> str:
        """Return the type of what it answers, as fp32."""
        return (_TYPES.get(self._session.get_outputs()[0].type) or "unknown").lower()

    def run(self, payload: dict[str, Any], stop: Stop) -> dict[str, Any]:
        """Return `outputs` for the payload's `inputs`; raise BackendError."""
        feeds = self._feeds(payload["inputs"])
        try:
            arrays = self._session.run(None, feeds, stop.options)
        except Exception as error:  # as above
            said = " ".join(str(error).split())[:200]
            raise BackendError(ErrorCategory.BACKEND_ERROR, f"the engine failed: {said}") from error
        named = zip(self._session.get_outputs(), arrays, strict=True)
        return {"outputs": [_tensor(one.name, array) for one, array in named]}

    def _feeds(self, inputs: Any) -> dict[str, Any]:
        return {
            name: _array(name, tensor)
            for name, tensor in checked_inputs(inputs, self._inputs).items()
        }


def _array(name: str, tensor: dict[str, Any]) -> Any:
    try:
        values = np.asarray(tensor["data"]).ravel()
        array: Any = values.astype(_DTYPES[tensor["datatype"]])
    except (KeyError, ValueError, TypeError, OverflowError):
        raise bad(f"payload.inputs.{name}: data is not {tensor['datatype']}") from None
    # numpy wraps 300 to 44 without a word.
    if "INT" in tensor["datatype"] and not bool((array == values).all()):
        raise bad(f"payload.inputs.{name}: data does not fit {tensor['datatype']}")
    return array.reshape(tensor["shape"])


def prove(told: dict[str, Any]) -> dict[str, Any]:
    """Open a model and run its golden inputs; what a trial runs. Raise BackendUnavailable."""
    session = Session(told)
    return {"golden_error": golden_error(session, told)}


def golden_error(session: Session, told: dict[str, Any]) -> float:
    """Return the largest error of the golden answers; raise BackendUnavailable if too large."""
    try:
        errors = [
            error_of(golden, session.run(golden.payload, Stop()))
            for golden in itertools.starmap(Golden, told["golden"])
        ]
    except BackendError as error:
        raise BackendUnavailable(
            f"{told['model_name']} fails at its golden input: {error}"
        ) from error
    return accept(told["model_name"], told["provider"], max(errors), told["golden_error_max"])


def _tensor(name: str, array: Any) -> dict[str, Any]:
    data = array.ravel().tolist()
    datatype = _DATATYPES.get(array.dtype, "BYTES")
    return {"name": name, "shape": list(array.shape), "datatype": datatype, "data": data}
