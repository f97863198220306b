"""What a node asks of an engine, and how an engine says that it could not.

Knows no engine and no Kafka. Times of a call are the node's to measure; a backend only runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from schemas.capability import Capability
from schemas.outcomes import ErrorCategory
from schemas.request import Priority

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
    priority: Priority = Priority.NORMAL


class Completion(NamedTuple):
    """What a run gave.

    Attributes:
        output: the response body of the payload's protocol.
        usage: its token counts, if it has any.
        first_token_ms: from the start of the run to the first of its text; None: not streamed.
    """

    output: dict[str, Any]
    usage: dict[str, Any] | None = None
    first_token_ms: float | None = None


class SelfTest(NamedTuple):
    """What the golden inputs showed.

    Attributes:
        took_ms: one run.
        proven: what each model can do on this device.
    """

    took_ms: float
    proven: tuple[Capability, ...] = ()


class Load(NamedTuple):
    """What an engine says of its own queue, which others may fill too.

    Attributes:
        running, waiting: requests; running is None if it does not say.
        kv_used: share of the KV cache in use, 0 to 1; None if it does not say.
    """

    running: int | None
    waiting: int
    kv_used: float | None = None


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
    """An engine with its models, run by one node.

    Draining is the node's: it starts nothing more and waits. A deadline too: it cancels the call.
    """

    @property
    def info(self) -> BackendInfo:
        """Return what it is; complete once started."""

    async def start(self) -> None:
        """Load what it runs; raise BackendUnavailable."""

    async def self_test(self) -> SelfTest:
        """Run golden inputs and return what they proved; raise BackendUnavailable if it is wrong.

        Called at start, and again before an engine that had failed gets work.
        """

    async def probe(self) -> None:
        """Run one small request of each model; raise BackendUnavailable.

        Called in doubt, while others may run: it is to end within seconds.
        """

    async def infer(self, call: Call) -> Completion:
        """Run one request; raise BackendError.

        Cancelling stops the engine too, and ends only when the device is free for the next call.
        """

    async def load(self) -> Load | None:
        """Return the engine's own queue; None if it tells nothing that the node does not know."""

    async def close(self) -> None:
        """Free the device, whether it was started or not; no call is running."""
