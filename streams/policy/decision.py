"""Decision: what a policy answers, and why. Knows no topic and no Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schemas.outcomes import Reason
from schemas.value import Value

NOTHING_EXCLUDED: Mapping[str, str] = MappingProxyType({})


class Decision(Value, frozen=True):
    """Where one request goes, and the rule that sent it there.

    Attributes:
        threshold: the overflow threshold this decision used.
        pool: None when the request is not routed: it ends as `expired` or `unroutable`.
        node: None when no live node owns the partition.
        partition: of the pool; -1 without a pool.
        express: on the pool's express lane.
        released: why a bound conversation was let go, "" when none was.
        yields_ms: for so long from its arrival it leaves the last free slot to other work, on a
            node that keeps one; 0: it takes any slot at once.
        excluded: pool -> why it is forbidden for this request; read-only, shared by decisions.
    """

    reason: Reason
    threshold: int
    pool: str | None = None
    node: str | None = None
    partition: int = -1
    express: bool = False
    released: str = ""
    yields_ms: int = 0
    excluded: Mapping[str, str] = NOTHING_EXCLUDED
