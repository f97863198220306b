"""What one node is told at its start, besides the settings that all processes share."""

from __future__ import annotations

import os
import socket
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import UsageError


def default_node_id() -> str:
    """Return host and pid: unique among the live, and a person can find the process by it."""
    return f"{socket.gethostname()}-{os.getpid()}"


class NodeOptions(BaseModel):
    """One node of one pool."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pool: str
    backend: str
    slots: int = Field(ge=1, le=1024)
    """Requests at once."""
    node_id: str = Field(default_factory=default_node_id, pattern=r"^[A-Za-z0-9._:-]{1,128}$")
    options: dict[str, Any] = Field(default_factory=dict)
    """What its backend is told, by the names that the backend declares."""


class BackendOptions(BaseModel):
    """What one kind of backend can be told; each declares its own."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


Options = TypeVar("Options", bound=BackendOptions)


def read_options(declared: type[Options], node: NodeOptions) -> Options:
    """Return the options of a node's backend; raise UsageError with the first that is wrong."""
    try:
        return declared.model_validate(node.options)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UsageError(
            f"backends.{node.backend}.{where}: {first['msg']}; see docs/backends.md"
        ) from None
