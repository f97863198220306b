"""Golden inputs: what a model is known to answer, and how far an answer is from it.

A device may take a model, run it and answer nonsense: only a known
answer tells. The file is made where the model is trusted, and goes with it; it is read once, when
the backend is made, so that all probes and self-tests ask the same.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from executors.backends.base import Call, Completion
from executors.backends.payload import Protocol, protocol_of
from schemas.errors import BackendUnavailable, UsageError

ERROR_MAX = 0.01
"""Of the largest number of an answer: FP16 stays within it, a broken device is far beyond."""
WRONG = math.inf
"""The error of an answer of another form."""


class Golden(NamedTuple):
    """A payload and the body that answers it."""

    payload: dict[str, Any]
    output: dict[str, Any]


def read_golden(path: Path) -> tuple[Golden, ...]:
    """Return the golden inputs in a file, at least one; raise UsageError."""
    try:
        found = tuple(
            Golden(one["payload"], one["output"]) for one in orjson.loads(path.read_bytes())
        )
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        found = ()
    if not found or not all(isinstance(body, dict) for golden in found for body in golden):
        raise UsageError(
            f'no golden inputs in {path}: a JSON list of {{"payload": ..., "output": ...}}, made '
            "where the model is trusted"
        )
    return found


def error_of(golden: Golden, output: dict[str, Any]) -> float:
    """Return how far an answer is from the golden one: 0 is the same, WRONG of another form.

    Numbers by the largest difference, over the largest expected number; text by the share of it
    that is not repeated from its beginning.
    """
    try:
        of_kind = _ERRORS[protocol_of(golden.payload)]
        return of_kind(golden.output, output)
    except (KeyError, TypeError, IndexError, ValueError):
        return WRONG


async def proven_error(
    infer: Callable[[Call], Awaitable[Completion]],
    model: str,
    device: str,
    golden: Sequence[Golden],
    error_max: float,
) -> float:
    """Return the largest error of a model's golden answers.

    Raises:
        BackendError: it gives none.
        BackendUnavailable: the error is too large.
    """
    asked = [(one, Call("golden", model, None, one.payload)) for one in golden]
    errors = [error_of(one, (await infer(call)).output) for one, call in asked]
    return accept(model, device, max(errors), error_max)


def accept(model: str, device: str, error: float, error_max: float) -> float:
    """Return the error of golden answers; raise BackendUnavailable if it is too large."""
    if error <= error_max:
        return error
    raise BackendUnavailable(
        f"{model} on {device} answers its golden input with a golden error of {error:.3g}, more "
        f"than {error_max:g}: the model's file or the device is broken"
    )


def _of_tensors(expected: dict[str, Any], output: dict[str, Any]) -> float:
    got = {tensor["name"]: tensor for tensor in output["outputs"]}
    return max(_of_tensor(tensor, got[tensor["name"]]) for tensor in expected["outputs"])


def _of_tensor(expected: dict[str, Any], got: dict[str, Any]) -> float:
    if list(expected["shape"]) != list(got["shape"]):
        return WRONG
    return _of_numbers(expected["data"], got["data"])


def _of_embeddings(expected: dict[str, Any], output: dict[str, Any]) -> float:
    pairs = zip(expected["data"], output["data"], strict=True)
    return max(_of_numbers(one["embedding"], other["embedding"]) for one, other in pairs)


def _of_numbers(expected: list[float | str], got: list[float | str]) -> float:
    if expected and isinstance(expected[0], str):
        differing = sum(one != other for one, other in zip(expected, got, strict=True))
        return differing / len(expected)
    largest = max((abs(float(one)) for one in expected), default=0.0)
    off: list[float] = [
        abs(float(one) - float(other)) for one, other in zip(expected, got, strict=True)
    ]
    if any(math.isnan(one) for one in off):
        return WRONG
    return float(max(off, default=0.0) / (largest or 1.0))


def _of_text(expected: dict[str, Any], output: dict[str, Any]) -> float:
    told, said = _text(expected), _text(output)
    if not told:
        return WRONG if said else 0.0
    same = next((at for at in range(len(told)) if said[at : at + 1] != told[at]), len(told))
    return 1.0 - same / len(told)


def _text(output: dict[str, Any]) -> str:
    choice = output["choices"][0]
    text: str = choice["text"] if "text" in choice else choice["message"]["content"]
    return text


_ERRORS = {
    Protocol.TENSORS: _of_tensors,
    Protocol.EMBEDDING: _of_embeddings,
    Protocol.COMPLETION: _of_text,
    Protocol.CHAT: _of_text,
}
