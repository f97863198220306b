"""Requests of a batch that were decided alike, and what they share.

Data only: `batch` makes one for each kind of decision, and counts in it what was written.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.kafka.outputs import Destination


@dataclass(slots=True)
class Routed:
    """What is made once for all of them.

    Attributes:
        reason, pool, node, partition, express, released: of the decision.
        destination: where they are written.
        counted_as: its name in metadata.
        header: tells the executor all this.
        records: how many there are, by source.
        mflop: their work, by source.
    """

    reason: str
    pool: str
    node: str | None
    partition: int
    express: bool
    released: str
    destination: Destination
    counted_as: str
    header: tuple[str, bytes]
    records: list[int]
    mflop: list[int]
