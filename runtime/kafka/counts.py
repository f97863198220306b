"""What happens to a host's partitions, counted for the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class HostCounts:
    """Totals since the process started; they only grow.

    Attributes:
        assignments: of the group to us. Many a minute mean two processes fight over one
            group_instance_id.
        first_starts: partitions begun at offset 0 because nothing was ever committed.
        fenced: transactions refused because another owner had opened the partition.
        unknown_outcomes: transactions whose end had to be read from the committed offset.
        fetch_errors: requests, or partitions in their answers, that failed.
    """

    assignments: int = 0
    first_starts: int = 0
    fenced: int = 0
    unknown_outcomes: int = 0
    fetch_errors: int = 0
