"""Backends by name: the one place that lists them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from schemas.errors import UsageError

if TYPE_CHECKING:
    from executors.backends.base import Backend
    from executors.settings import NodeOptions

BACKENDS = {
    "emulated": "executors.backends.emulated",
    "llama": "executors.backends.llama",
    "oip": "executors.backends.oip",
    "onnx": "executors.backends.onnx",
    "openai": "executors.backends.openai",
}
"""The module of each, whose `make` returns it. Names, so that only the one that runs is imported:
engines are heavy, and one that is not installed harms nobody."""


def make_backend(node: NodeOptions) -> Backend:
    """Return the backend that the options name, not started; raise UsageError."""
    module = BACKENDS.get(node.backend)
    if module is None:
        available = ", ".join(sorted(BACKENDS))
        raise UsageError(f"no backend {node.backend!r} here; available are: {available}")
    backend: Backend = importlib.import_module(module).make(node)
    return backend
