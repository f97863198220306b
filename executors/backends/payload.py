"""Which protocol a payload speaks, told by the one field that each requires.

Pure. Backends share it, so that the same payload means the same on each.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from executors.backends.base import BackendError
from schemas.outcomes import ErrorCategory


class Protocol(Enum):
    """A protocol by the field that tells it."""

    CHAT = "messages"
    COMPLETION = "prompt"
    EMBEDDING = "input"
    TENSORS = "inputs"


def protocol_of(payload: dict[str, Any]) -> Protocol:
    """Return the payload's protocol; raise BackendError (bad-request) if it has none."""
    for protocol in Protocol:
        if protocol.value in payload:
            return protocol
    raise BackendError(
        ErrorCategory.BAD_REQUEST,
        "payload: give prompt, messages or input (OpenAI), or inputs (Open Inference Protocol)",
    )
