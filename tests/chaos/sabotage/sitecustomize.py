"""What the roles of a chaos run do otherwise: Python runs this at their start (PYTHONPATH).

The policy raises at one model's name, emulated backends do what a request's payload says, and a
member of a group may be silent for 3 s instead of 300. Nothing else of the product is touched.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer

from executors.backends.base import BackendError, Call, Completion
from executors.backends.emulated import Emulated
from schemas.features import Features
from schemas.outcomes import ErrorCategory
from schemas.topics import RECORD_BYTES_MAX
from streams.policy import Decision, Policy, View
from tests.chaos.traffic import BROKEN_MODEL, Kind

MAX_POLL_INTERVAL_MS = 3_000
LONG_RUN_S = 3 * MAX_POLL_INTERVAL_MS / 1000
RETRY_AFTER_MS = 200.0

_decide = Policy.decide
_overloaded: set[str] = set()
_infer = Emulated.infer
_consumer = AIOKafkaConsumer.__init__


def decide(self: Policy, features: Features, view: View, now_ms: int) -> Decision:
    """Trip over one model."""
    if features.model == BROKEN_MODEL:
        raise ZeroDivisionError("a fault of the policy, made on purpose")
    return _decide(self, features, view, now_ms)


async def infer(self: Emulated, call: Call) -> Completion:
    """Behave as the payload says."""
    behaviour = call.payload.get("behaviour")
    if behaviour == Kind.OVERLOADED.value and call.request_id not in _overloaded:
        _overloaded.add(call.request_id)
        raise BackendError(ErrorCategory.OVERLOADED, "429, come back", RETRY_AFTER_MS)
    if behaviour == Kind.UNAVAILABLE.value:
        raise BackendError(ErrorCategory.UNAVAILABLE, "connection refused")
    if behaviour == Kind.FAILS.value:
        raise BackendError(ErrorCategory.BACKEND_ERROR, "500, something broke")
    if behaviour == Kind.REJECTED.value:
        raise BackendError(ErrorCategory.BAD_REQUEST, "400, not like this")
    if behaviour == Kind.RAISES.value:
        raise ZeroDivisionError("a fault of the engine, made on purpose")
    if behaviour == Kind.HANGS.value:
        await asyncio.Event().wait()
    if behaviour == Kind.LONG.value:
        await asyncio.sleep(LONG_RUN_S)
    completion = await _infer(self, call)
    if behaviour == Kind.WORDY.value:
        completion.output["choices"][0]["text"] = "x" * RECORD_BYTES_MAX
    return completion


def start_consumer(self: AIOKafkaConsumer[Any, Any], *topics: str, **settings: Any) -> None:
    """Let members be called dead after 3 s without a poll."""
    if settings.get("group_id"):
        settings.setdefault("max_poll_interval_ms", MAX_POLL_INTERVAL_MS)
    _consumer(self, *topics, **settings)


Policy.decide = decide
Emulated.infer = infer
AIOKafkaConsumer.__init__ = start_consumer
