"""What nodes say of themselves on `nodes`, read without a control worker, and what that proves.

Liveness is not judged here: that is control's.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.scan import scan
from schemas.capability import Capability
from schemas.control import NodeReport, NodeState
from schemas.errors import FormatError
from schemas.message import decode
from schemas.topics import TopicNames

REPORTS_BACK, REPORTS_BACK_MIN = 8, 200
"""Before the end of `nodes`, for each node and in all: one reports twice a second and lives 3 s
without, but at once on each change."""


class Proof(NamedTuple):
    """What some nodes of a pool have proven of a model, all alike.

    Attributes:
        nodes: how many.
        golden_error: the largest; None where no golden inputs were asked.
        validated_age_s: of the oldest validation.
    """

    pool: str
    model: str
    nodes: int
    precision: str | None
    tokenizer_digest: str | None
    golden_error: float | None
    validated_age_s: float


async def last_reports(
    connection: Connection, offsets: OffsetReader, names: TopicNames, nodes: int
) -> dict[str, NodeReport]:
    """Return by node what each of so many said of itself in the last seconds.

    Who was silent is missing, and who is of a release that this one cannot read.

    Raises:
        BrokerUnreachable: no answer in time.
    """
    place = TopicPartition(names.nodes, 0)
    end = (await offsets.end([place]))[place]
    begin = (await offsets.begin([place]))[place]
    back = max(REPORTS_BACK_MIN, REPORTS_BACK * nodes)
    values: dict[bytes | None, bytes] = {}
    async for record in scan(connection, place, max(begin, end - back), end):
        values.pop(record.key, None)
        if record.value is not None:
            values[record.key] = record.value
    reports = {}
    for value in values.values():
        with contextlib.suppress(FormatError):
            report = decode(NodeReport, value)
            reports[report.node] = report
    return reports


def proofs(
    nodes: Iterable[NodeState], proven: Mapping[str, tuple[Capability, ...]], now_ms: int
) -> list[Proof]:
    """Return what is proven, by pool and model: one entry where all nodes of the pool agree.

    Nodes that differ in precision, in tokenizer, or in having golden inputs stand apart.
    """
    alike: dict[tuple[str, str, str, str, bool], list[Capability]] = defaultdict(list)
    for node in nodes:
        for one in proven.get(node.id, ()):
            precision, digest = one.precision or "", one.tokenizer_digest or ""
            kind = node.pool, one.model, precision, digest, one.golden_error is None
            alike[kind].append(one)
    return [
        Proof(
            pool,
            model,
            len(found),
            found[0].precision,
            found[0].tokenizer_digest,
            max((one.golden_error for one in found if one.golden_error is not None), default=None),
            # Another host's clock may be ahead.
            max(0, now_ms - min(one.validated_at_ms for one in found)) / 1000,
        )
        for (pool, model, *_), found in sorted(alike.items())
    ]
