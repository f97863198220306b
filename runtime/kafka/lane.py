"""What a role provides to work on the partitions it owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from aiokafka.structs import TopicPartition

from runtime.kafka.offsets import Committed
from runtime.kafka.records import Received
from runtime.kafka.transactions import FencedProducer

IDLE_COMMIT_S = 3600.0
"""A lane without work commits its offsets again this often, or the broker would let them expire.
The lane's `run` does it, with no outputs and the offsets and metadata it committed last."""


class Lane(Protocol):
    """What a role does with partition number i of the leader topic and its followers.

    One owner, one object, one task. The host calls `open`, then `run`; both again on the same
    object after an unknown outcome. After a fencing the object is closed and a new one made.
    """

    async def recover(self, tp: TopicPartition) -> Committed | None:
        """Return what the role's own records say of a partition without a committed offset."""

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        """Take up work after fencing, and return the next offset wanted of each partition.

        Args:
            committed: the truth, also about a commit whose outcome was unknown. A first start is
                offset 0 with empty metadata.
        """

    def room(self, tp: TopicPartition) -> bool:
        """Return whether to fetch more of `tp` now; asked before each fetch."""

    def offer(self, tp: TopicPartition, records: Sequence[Received]) -> None:
        """Take records: in order, without gap or repeat. What is offered cannot be refused."""

    async def run(self, producer: FencedProducer) -> None:
        """Work until cancelled; the only user of `producer`.

        `Fenced` and `OutcomeUnknown` of a commit are the host's to handle. Any other exception ends
        the process.
        """

    async def drain(self) -> None:
        """Return when all work begun is committed; `run` goes on, nothing more is offered."""

    async def close(self) -> None:
        """Give up what is left; `run` has ended."""
