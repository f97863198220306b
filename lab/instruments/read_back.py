"""The decisions that a run has left behind: when each was committed, how old its counts were."""

from __future__ import annotations

from typing import NamedTuple

from lab.instruments.commits import committed_records
from runtime.kafka.connection import Connection
from schemas.control import Snapshot
from schemas.decisions import DecisionsRecord, decode_decisions
from schemas.message import decode


class CommittedDecisions(NamedTuple):
    """One routing transaction.

    Attributes:
        committed_ms: epoch ms on the broker's clock.
        counts_age_ms: from the beginning of the probe that it was decided by to the decision, on
            one host's clock; None where no record states that snapshot.
    """

    record: DecisionsRecord
    committed_ms: int
    counts_age_ms: float | None


async def committed_decisions(
    connection: Connection, topic: str, partitions: int
) -> list[CommittedDecisions]:
    """Return all routing transactions of a run that has ended, in commit order."""
    records = [
        (decode_decisions(record.value), record.at_ms)
        for record in await committed_records(connection, topic, partitions)
    ]
    probed_ms: dict[tuple[int, int] | None, int] = {}
    for record, _ in records:
        if record.view.body is not None:
            probed_ms[record.view.snapshot] = decode(Snapshot, record.view.body).probed_at_ms
    return [
        CommittedDecisions(
            record,
            committed_ms,
            record.now_ms - probed_ms[record.view.snapshot]
            if record.view.snapshot in probed_ms
            else None,
        )
        for record, committed_ms in records
    ]
