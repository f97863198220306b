"""A stretch of a batch, as it goes through the passes. Data only: `batch` fills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.kafka.records import Received
from schemas.errors import RecordRejected
from streams.policy import Decision
from streams.router.intake import Arrival
from streams.router.routed import Routed

Fate = Routed | Decision | RecordRejected | None
"""What becomes of one record: routed, ended here, dead, or (None) decided before."""


@dataclass(slots=True)
class Part:
    """Records of one source, what each is, and what becomes of each.

    Attributes:
        source: an index of (requests, retry).
        arrivals: filled by reading; fates: filled by deciding.
    """

    source: int
    records: Sequence[Received]
    arrivals: list[Arrival | RecordRejected] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)

    def let_go(self) -> None:
        """Forget the records: what is written is freed while the processor has it at hand."""
        self.records, self.arrivals, self.fates = (), [], []
