"""Input tensors of the Open Inference Protocol against what a model takes.

Pure, in plain Python. Servers answer a tensor of the wrong shape with a fault of their own, which
would send the request from node to node; here it is what it is, a bad request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from executors.backends.base import BackendError
from schemas.outcomes import ErrorCategory


class Input(NamedTuple):
    """A tensor that a model takes; -1 in the shape where any size will do."""

    datatype: str
    shape: tuple[int, ...]


def read_inputs(metadata: Mapping[str, Any]) -> dict[str, Input]:
    """Return what a model's metadata says that it takes; nothing where it does not say it."""
    try:
        return {
            one["name"]: Input(one["datatype"], tuple(int(size) for size in one["shape"]))
            for one in metadata.get("inputs") or ()
        }
    except (KeyError, TypeError, ValueError):
        return {}


def checked_inputs(inputs: Any, wanted: Mapping[str, Input]) -> dict[str, dict[str, Any]]:
    """Return the tensors by name; raise BackendError (bad-request) if the model cannot take them.

    Args:
        inputs: of the payload.
        wanted: by the model; nothing known of it lets any names and shapes pass.
    """
    if not isinstance(inputs, list) or not inputs:
        raise bad("payload.inputs: give a list of tensors")
    given = {}
    for tensor in inputs:
        if not isinstance(tensor, dict) or not isinstance(tensor.get("name"), str):
            raise bad("payload.inputs: give tensors with name, shape, datatype and data")
        given[tensor["name"]] = tensor
    if wanted and given.keys() != wanted.keys():
        raise bad(f"payload.inputs: this model takes {', '.join(wanted)}")
    for name, tensor in given.items():
        _check(name, tensor, wanted.get(name))
    return given


def bad(message: str) -> BackendError:
    """Return the error of a payload that cannot be read."""
    return BackendError(ErrorCategory.BAD_REQUEST, message)


def _check(name: str, tensor: dict[str, Any], wanted: Input | None) -> None:
    where = f"payload.inputs.{name}"
    datatype, shape, data = tensor.get("datatype"), tensor.get("shape"), tensor.get("data")
    if wanted is not None and datatype != wanted.datatype:
        raise bad(f"{where}: datatype must be {wanted.datatype}")
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise bad(f"{where}: shape must be a list of sizes")
    if wanted is not None and not _fits(shape, wanted.shape):
        raise bad(f"{where}: shape must be {list(wanted.shape)}, -1 being any")
    if not isinstance(data, list):
        raise bad(f"{where}: data must be a list")
    values = _flat(data)
    if len(values) != math.prod(shape):
        raise bad(f"{where}: {len(values)} values do not fill {shape}")
    if not all(type(value) in _TYPES.get(str(datatype), (int,)) for value in values):
        raise bad(f"{where}: data is not {datatype}")


_TYPES: dict[str, tuple[type, ...]] = {
    "BOOL": (bool,),
    "BYTES": (str,),
    **dict.fromkeys(("FP16", "BF16", "FP32", "FP64"), (int, float)),
}
"""Of JSON, by datatype; all others are integers. A bool is no number here."""


def _is_size(size: Any) -> bool:
    return type(size) is int and size >= 0


def _fits(shape: list[int], wanted: tuple[int, ...]) -> bool:
    return len(shape) == len(wanted) and all(
        size in (-1, given) for given, size in zip(shape, wanted, strict=True)
    )


def _flat(data: list[Any]) -> list[Any]:
    """Return the values of lists in lists, in order."""
    while any(isinstance(one, list) for one in data):
        data = [one for part in data for one in (part if isinstance(part, list) else [part])]
    return data
