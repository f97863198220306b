"""What one node is told at its start, besides the settings that all processes share."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


def default_node_id() -> str:
    """Return host and pid: unique among the live, and a person can find the process by it."""
    return f"{socket.gethostname()}-{os.getpid()}"


class NodeOptions(BaseModel):
    """One node of one pool."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    pool: str
    backend: str
    slots: int = Field(ge=1, le=1024)
    """Requests at once."""
    node_id: str = Field(default_factory=default_node_id, pattern=r"^[A-Za-z0-9._:-]{1,128}$")
    profile: str | None = None
    """`fixed:MS` or a TOML file: the speed of `emulated`; `llama` is slowed down to it."""
    device: str | None = None
    """What made-up hardware calls itself in results."""
    model_name: str | None = None
    """Name that requests give for the model at `model_path`."""
    model_path: Path | None = None
    model_aliases: tuple[str, ...] = ()
    """Other names of the same model: a registry may say something else of each."""
    context_tokens: int = Field(default=512, ge=1)
    """Prompt and answer of one request; what the small model of the repository was trained on."""
    threads: int = Field(default=1, ge=1)
    """Of an engine in process. One: on a shared host more threads wait for each other, spinning."""
