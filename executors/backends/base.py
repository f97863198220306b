"""What a node asks of an engine, and how an engine says that it could not.

Knows no engine and no Kafka. Times of a call are the node's to measure; a backend only runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from schemas.outcomes import ErrorCategory

MESSAGE_LENGTH_MAX = 300
"""Characters of an error that travel: one line for people, no dump."""


class BackendInfo(NamedTuple):
    """What results and reports say of a backend.

    Attributes:
        kind: name it is chosen by.
        engine: software and version.
        device: what it runs on.
        emulated: any part of its results, speed included, is made up.
        models: the models it serves; none means any.
        adapters: the LoRA adapters it serves.
    """

    kind: str
    engine: str
    device: str
    emulated: bool = False
    models: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()


class Call(NamedTuple):
    """One request as a backend sees it; `payload` is the caller's, opaque so far."""

    request_id: str
    model: str
    adapter: str | None
    payload: dict[str, Any]


class Completion(NamedTuple):
    """The response body of the payload's protocol, and its token counts if it has any."""

    output: dict[str, Any]
    usage: dict[str, Any] | None = None


class BackendError(Exception):
    """A run without a result; the category says what to do next.

    Attributes:
        message: one line for people.
        retry_after_ms: how long the engine asked to be left alone, None if it did not say.
    """

    def __init__(
        self, category: ErrorCategory, message: str, retry_after_ms: float | None = None
    ) -> None:
        self.category = category
        self.message = " ".join(message.split())[:MESSAGE_LENGTH_MAX]
        self.retry_after_ms = retry_after_ms
        super().__init__(self.message)


class Backend(Protocol):
    """An engine with its models, run by one node."""

    @property
    def info(self) -> BackendInfo:
        """Return what it is; complete once started."""

    async def start(self) -> None:
        """Load what it runs; raise BackendUnavailable."""

    async def self_test(self) -> float:
        """Run a golden input and return its time in ms; raise BackendUnavailable if it is wrong."""

    async def infer(self, call: Call) -> Completion:
        """Run one request; raise BackendError.

        Cancelling stops the engine too, and ends only when the device is free for the next call.
        """

    async def close(self) -> None:
        """Free the device; no call is running."""
