"""The closed sets that say how a request fared: reasons, modes, statuses, error categories.

Each is a metric label and a wire value at once, so a member is added, never renamed. Categories
know what happens next, so no caller keeps its own list.
"""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """Which rule of the policy decided (docs/policy.md)."""

    # Enum's own is a Python function, and routers look reasons up for every record.
    __hash__ = str.__hash__

    EXPIRED = "expired"
    UNROUTABLE = "unroutable"
    WAITING = "waiting"
    STICKY = "sticky"
    STRICT_SLO = "strict-slo"
    REALTIME = "realtime"
    TENSOR_PARALLEL = "tensor-parallel"
    LORA = "lora"
    SMALL_MODEL = "small-model"
    GPU_PREFERRED = "gpu-preferred"
    OVERFLOW = "overflow"
    FALLBACK = "fallback"
    CHEAPEST = "cheapest"
    PATIENT = "patient"
    SOONEST = "soonest"
    EXPLORING = "exploring"
    BASELINE = "baseline"
    BLIND = "blind"


class Mode(str, Enum):
    """How much a router knew when it decided."""

    NORMAL = "normal"
    STALE = "stale"
    BLIND = "blind"


class Status(str, Enum):
    """How a result ended."""

    OK = "ok"
    ERROR = "error"
    EXPIRED = "expired"


class Disposition(str, Enum):
    """What is done next about a failure."""

    RETRY_HERE = "retry-here"
    """Try again on this node, without holding a slot, within the retry rule's bounds."""
    REFUSE = "refuse"
    """Hand the request back to the routers, this node excluded."""
    FINAL = "final"
    """End the request: no other node would do better."""


class ErrorCategory(str, Enum):
    """Why a result has status `error`."""

    UNROUTABLE = "unroutable"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    BAD_REQUEST = "bad-request"
    MODEL_NOT_FOUND = "model-not-found"
    ADAPTER_NOT_FOUND = "adapter-not-found"
    CONTEXT_TOO_LONG = "context-too-long"
    RESULT_TOO_LARGE = "result-too-large"
    BACKEND_ERROR = "backend-error"
    ATTEMPTS_EXHAUSTED = "attempts-exhausted"

    @property
    def disposition(self) -> Disposition:
        """Return what a node does about it."""
        return _RESULT_DISPOSITIONS[self]


_RESULT_DISPOSITIONS = {
    ErrorCategory.UNROUTABLE: Disposition.FINAL,
    ErrorCategory.OVERLOADED: Disposition.RETRY_HERE,
    ErrorCategory.UNAVAILABLE: Disposition.RETRY_HERE,
    ErrorCategory.BAD_REQUEST: Disposition.FINAL,
    ErrorCategory.MODEL_NOT_FOUND: Disposition.REFUSE,
    ErrorCategory.ADAPTER_NOT_FOUND: Disposition.REFUSE,
    ErrorCategory.CONTEXT_TOO_LONG: Disposition.FINAL,
    ErrorCategory.RESULT_TOO_LARGE: Disposition.FINAL,
    # An engine that failed once may have met a bad moment: another node tries.
    ErrorCategory.BACKEND_ERROR: Disposition.REFUSE,
    ErrorCategory.ATTEMPTS_EXHAUSTED: Disposition.FINAL,
}


class DeadLetterCategory(str, Enum):
    """Why a record of `requests` or `retry` could not become a request."""

    NOT_JSON = "not-json"
    BAD_ENCODING = "bad-encoding"
    INVALID_FIELD = "invalid-field"
    NULL_VALUE = "null-value"
    TOO_LARGE = "too-large"
    TOO_DEEP = "too-deep"
    UNSUPPORTED_VERSION = "unsupported-version"
    UNDECODABLE = "undecodable"
    CONFLICT = "conflict"
    INTERNAL = "internal"

    @property
    def disposition(self) -> Disposition:
        """Return FINAL: a record that cannot be read gets no better by waiting."""
        return Disposition.FINAL
