"""Features: what a policy may read of a request, and nothing else.

They are the request reduced to values that fit in one row of `decisions`, so that a decision can be
made again from the record alone.
"""

from __future__ import annotations

import zlib

from schemas.headers import Exclusion
from schemas.pools import ComputeType
from schemas.request import Priority, Request, expiry_ms
from schemas.value import Value, replace

STRICT_SLO_MS = 50.0
"""Below this only a GPU on the express lane has a chance (the article's bound)."""
REALTIME_SLO_MS = 200.0
"""The objective of realtime work that brings none."""


def objective_ms(slo_ms: float | None, priority: Priority) -> float | None:
    """Return the objective that a request is held to; None if it has none."""
    return REALTIME_SLO_MS if slo_ms is None and priority is Priority.REALTIME else slo_ms


class Features(Value, frozen=True, array_like=True):
    """One request as a policy sees it, and one row of `decisions`: a newer writer appends fields.

    Attributes:
        slo_ms: latency objective in ms or None.
        expires_at_ms: epoch ms.
        key_hash: CRC-32 of the record's key, of the origin where the key is null.
        pinned: compute types that the request insists on; empty: none.
    """

    model: str
    priority: Priority
    slo_ms: float | None
    lora: bool
    gflops: float | None
    expires_at_ms: int
    attempt: int = 1
    adapter: str | None = None
    conversation: str | None = None
    key_hash: int = 0
    excluded: tuple[Exclusion, ...] = ()
    pinned: tuple[ComputeType, ...] = ()
    operators: tuple[str, ...] = ()
    precision: str | None = None
    capabilities: tuple[str, ...] = ()


def features_of(
    request: Request,
    arrived_at_ms: int,
    key: bytes,
    attempt: int = 1,
    excluded: tuple[Exclusion, ...] = (),
) -> Features:
    """Return the features of a request; `key` is the record's, or the encoded origin."""
    features = Features(
        request.model_name,
        request.priority,
        request.latency_slo_ms,
        request.has_lora or request.adapter is not None,
        request.estimated_gflops,
        expiry_ms(request, arrived_at_ms),
        attempt,
        request.adapter,
        request.conversation_id,
        zlib.crc32(key),
        excluded,
    )
    requires = request.requires
    if requires is None:
        return features
    return replace(
        features,
        pinned=requires.compute_types or (),
        operators=requires.operators,
        precision=requires.precision,
        capabilities=requires.features,
    )
