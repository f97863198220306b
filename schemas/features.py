"""Features: what a policy may read of a request, and nothing else.

They are the request reduced to values that fit in one row of `decisions`, so that a decision can be
made again from the record alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from schemas.fast import quick
from schemas.headers import Exclusion
from schemas.pools import ComputeType
from schemas.request import Priority, Request, expiry_ms

STRICT_SLO_MS = 50.0
"""Below this only a GPU on the express lane has a chance (the article's bound)."""
REALTIME_SLO_MS = 200.0
"""The objective of realtime work that brings none."""


class Features(NamedTuple):
    """One request as a policy sees it.

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


_features = quick(Features)


def features_of(
    request: Request,
    *,
    arrived_at_ms: int,
    key: bytes,
    attempt: int = 1,
    excluded: tuple[Exclusion, ...] = (),
) -> Features:
    """Return the features of a request; `key` is the record's, or the encoded origin."""
    features = _features(
        (request.model_name, request.priority, request.latency_slo_ms,
         request.has_lora or request.adapter is not None, request.estimated_gflops,
         expiry_ms(request, arrived_at_ms), attempt, request.adapter, request.conversation_id,
         zlib.crc32(key), excluded, (), (), None, ())
    )  # fmt: skip
    requires = request.requires
    if requires is None:
        return features
    return features._replace(
        pinned=requires.compute_types or (),
        operators=requires.operators,
        precision=requires.precision,
        capabilities=requires.features,
    )


def to_row(features: Features) -> Sequence[Any]:
    """Return the features as a JSON row."""
    if not features.excluded:
        return tuple(features)
    row: list[Any] = list(features)
    row[_EXCLUDED] = [list(exclusion) for exclusion in features.excluded]
    return row


def from_row(row: Sequence[Any]) -> Features:
    """Return the features in a JSON row; fields that a newer writer appended are ignored."""
    features = Features(*row[: len(Features._fields)])
    return features._replace(
        priority=Priority(features.priority),
        excluded=tuple(Exclusion(node, until) for node, until in features.excluded),
        pinned=tuple(ComputeType(name) for name in features.pinned),
        operators=tuple(features.operators),
        capabilities=tuple(features.capabilities),
    )


_EXCLUDED = Features._fields.index("excluded")
