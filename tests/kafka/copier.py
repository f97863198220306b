"""A role as small as can be, to test what hosts lanes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping, Sequence

from aiokafka.structs import TopicPartition

from runtime.kafka.lanes import LaneHost
from runtime.kafka.offsets import Committed
from runtime.kafka.outputs import Outputs
from runtime.kafka.records import Received, Undecodable
from runtime.kafka.transactions import FencedProducer
from tests.kafka.places import Place
from tests.waiting import until

BATCH = 50  # records of one transaction
ROOM = 200


class CopyLane:
    """Copies records under their origin and keeps their count in the metadata."""

    def __init__(self, place: Place, number: int) -> None:
        self.number = number
        self.opens = 0
        self.closed = False
        self._place = place
        self._queue: deque[tuple[TopicPartition, Received]] = deque()
        self._offered = asyncio.Event()
        self._committed: dict[TopicPartition, Committed] = {}

    async def recover(self, tp: TopicPartition) -> Committed | None:  # noqa: ARG002  the protocol's
        return None

    async def open(
        self, committed: Mapping[TopicPartition, Committed]
    ) -> Mapping[TopicPartition, int]:
        self.opens += 1
        self._queue.clear()
        self._committed = dict(committed)
        return {tp: found.offset for tp, found in committed.items()}

    def room(self, tp: TopicPartition) -> bool:  # noqa: ARG002  one queue for both
        return len(self._queue) < ROOM

    def offer(self, tp: TopicPartition, records: Sequence[Received]) -> None:
        self._queue.extend((tp, record) for record in records)
        self._offered.set()

    async def run(self, producer: FencedProducer) -> None:
        while True:
            await self._offered.wait()
            self._offered.clear()
            while self._queue:
                await self._copy(producer)

    async def _copy(self, producer: FencedProducer) -> None:
        outputs, offsets = Outputs(), dict(self._committed)
        for tp, record in [self._queue[i] for i in range(min(BATCH, len(self._queue)))]:
            origin = f"{tp.topic}/{tp.partition}/{record.offset}".encode()
            if isinstance(record, Undecodable):
                outputs.add(self._place.out, 0, origin, None, [("why", record.why.encode())])
            else:
                outputs.add(self._place.out, 0, origin, record.value, record.headers)
            count = int(offsets[tp].metadata or 0) + 1
            # Two digits at least: one alone does not read as metadata of ours.
            offsets[tp] = Committed(record.offset + 1, f"{count:02d}")
        await producer.commit(outputs, offsets)
        self._committed = offsets
        for _ in range(outputs.records):
            self._queue.popleft()

    async def drain(self) -> None:
        await until(lambda: not self._queue)

    async def close(self) -> None:
        self.closed = True


def hosted(
    place: Place, lanes: dict[int, CopyLane] | None = None, *, instance_id: str | None = None
) -> LaneHost:
    """Return a host of copy lanes; `lanes` gets each lane made, by number."""
    made = {} if lanes is None else lanes

    def lane(number: int) -> CopyLane:
        made[number] = CopyLane(place, number)
        return made[number]

    return LaneHost(
        place.connection,
        group=place.group,
        leader=place.leader,
        followers=[place.follower],
        lane=lane,
        instance_id=instance_id,
    )


@contextlib.asynccontextmanager
async def running(host: LaneHost) -> AsyncIterator[LaneHost]:
    """Run a host and stop it at the end; an error of the host fails the test."""
    task = asyncio.ensure_future(host.run())
    try:
        yield host
    finally:
        await host.stop(within_s=5)
        await task


async def each_once(place: Place, count: int) -> None:
    """Wait for `count` copies, then check that none is doubled."""

    async def there() -> bool:
        return len(await place.copies()) >= count

    await until(there)
    origins = Counter(origin for origin, _ in await place.copies())
    assert {origin: n for origin, n in origins.items() if n != 1} == {}
    assert len(origins) == count
