"""Own partitions exactly once: a lane for each one that the group gives to this process.

Owns the wiring: an assignment starts or ends lanes and leaves those that stay untouched; one
fetcher feeds them all. What a lane does with records is its role's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from aiokafka.client import AIOKafkaClient
from aiokafka.structs import TopicPartition

from runtime.kafka.connection import Connection, connect
from runtime.kafka.counts import HostCounts
from runtime.kafka.fetch import Fetcher
from runtime.kafka.lane import Lane
from runtime.kafka.membership import Membership
from runtime.kafka.offsets import OffsetReader
from runtime.kafka.outage import Outage
from runtime.kafka.records import Decoded
from runtime.kafka.seat import Seat
from runtime.kafka.transactions import FencedProducer, transactional_id
from schemas.errors import BrokerUnreachable

log = logging.getLogger(__name__)

BROKER_AWAY_S = 2.0
"""Fetches that fail for this long make the process unready."""

END_LANES_S = 12.0
"""Longest wait for lanes to end: a commit under way takes 8 s at most, closing a second or two."""

_RETRY_S = 1.0


class LaneHost:
    """Runs a lane for each partition number that is ours.

    Attributes:
        counts: what happened, for the metrics.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        group: str,
        leader: str,
        followers: Sequence[str],
        lane: Callable[[int], Lane],
        on_change: Callable[[], None] = lambda: None,
        instance_id: str | None = None,
    ) -> None:
        """Prepare; no broker is contacted before `run`.

        Args:
            connection: how to reach the brokers.
            group: consumer group; its committed offsets and metadata are the lanes' state.
            leader: topic whose partitions are assigned.
            followers: topics whose partition i goes with the leader's.
            lane: makes the lane of a partition number.
            on_change: called after an assignment and whenever a lane opened or ended.
            instance_id: static membership, for quick restarts; such a member never leaves.
        """
        self.counts = HostCounts()
        self._connection = connection
        self._group = group
        self._leader = leader
        self._topics = (leader, *followers)
        self._lane = lane
        self._on_change = on_change
        self._offsets = OffsetReader(connection)
        self._fetcher: Fetcher | None = None
        self._seats: dict[int, Seat] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[int] = set()
        self._stopping = False
        self._end: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()
        self._membership = Membership(
            connection,
            group=group,
            leader=leader,
            followers=followers,
            counts=self.counts,
            on_assigned=self._assigned,
            instance_id=instance_id,
        )

    @property
    def assigned(self) -> frozenset[int]:
        """The partition numbers that are ours."""
        return frozenset(self._wanted_seats())

    @property
    def generation(self) -> int:
        """The group's generation of the last assignment; -1 before the first."""
        return self._membership.generation

    @property
    def open_lanes(self) -> dict[int, Lane]:
        """The lanes that run, by partition number."""
        return {n: seat.lane for n, seat in self._seats.items() if seat.lane is not None}

    @property
    def unready(self) -> str | None:
        """Why this process cannot do its work now; None when it can."""
        if self._fetcher is None or self._fetcher.failing_s() > BROKER_AWAY_S:
            return "broker-away"
        if self.generation < 0:
            return "joining"
        states = {n: self._seats[n].state if n in self._seats else "opening" for n in self.assigned}
        waiting = [f"{self._leader}-{n} {s}" for n, s in sorted(states.items()) if s != "open"]
        return "; ".join(waiting) or None

    async def run(self) -> None:
        """Own and serve partitions until `stop`; raise what makes going on impossible."""
        self._end = asyncio.get_running_loop().create_future()
        if self._stopping:
            self._end.set_result(None)
        work = asyncio.ensure_future(self._serve())
        try:
            await asyncio.wait({work, self._end}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._end_lanes()
            work.cancel()
            await asyncio.wait({work})
            await self._offsets.close()
            self._ended.set()
        for ended in (self._end, work):
            if ended.done() and not ended.cancelled():
                ended.result()

    async def stop(self, within_s: float) -> None:
        """Let lanes finish what they have begun; then commit, leave the group and close.

        Args:
            within_s: how long lanes may drain. What is unfinished then runs again elsewhere.
        """
        self._stopping = True
        drains = [asyncio.ensure_future(lane.drain()) for lane in self.open_lanes.values()]
        if drains:
            await asyncio.wait(drains, timeout=within_s)
        for drain in drains:
            drain.cancel()
        await asyncio.gather(*drains, return_exceptions=True)
        if self._end is not None:
            if not self._end.done():
                self._end.set_result(None)
            await self._ended.wait()

    # What the fetcher asks and tells (`Sink`).

    def wanted(self) -> Mapping[TopicPartition, int | None]:
        """Return the offset to fetch from for each partition, None for one without room now."""
        if self._stopping:
            return {}
        return {tp: at for seat in self._seats.values() for tp, at in seat.wanted().items()}

    def deliver(self, tp: TopicPartition, asked: int, decoded: Decoded) -> None:
        """Take what was fetched for `tp` at offset `asked`."""
        if not self._stopping and (seat := self._seats.get(tp.partition)):
            seat.deliver(tp, asked, decoded)

    def out_of_range(self, tp: TopicPartition, asked: int) -> None:
        """Learn that the log of `tp` has no offset `asked`."""
        if seat := self._seats.get(tp.partition):
            seat.out_of_range(tp, asked)

    async def _serve(self) -> None:
        client = await self._connected()
        try:
            await client.set_topics(self._topics)
            self._fetcher = Fetcher(client, self, self.counts)
            tasks = [
                asyncio.ensure_future(w) for w in (self._fetcher.run(), self._membership.run())
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                if isinstance(end, Exception):
                    raise end
        finally:
            await client.close()

    async def _connected(self) -> AIOKafkaClient:
        outage = Outage(log, "connecting")
        while True:
            try:
                client = await connect(self._connection)
            except BrokerUnreachable as error:
                outage.failed(error)
                await asyncio.sleep(_RETRY_S)
            else:
                outage.over()
                return client

    def _wanted_seats(self) -> dict[int, frozenset[TopicPartition]]:
        numbers: dict[int, set[TopicPartition]] = defaultdict(set)
        for tp in self._membership.assigned:
            numbers[tp.partition].add(tp)
        return {number: frozenset(tps) for number, tps in numbers.items()}

    def _assigned(self) -> None:
        self._reconcile()
        self._on_change()

    def _reconcile(self) -> None:
        """End the lanes that are no longer ours, start new ones, leave the others alone."""
        wanted = {} if self._stopping else self._wanted_seats()
        for number, seat in self._seats.items():
            if wanted.get(number) != seat.tps and number not in self._ending:
                self._ending.add(number)
                self._tasks[number].cancel()
        for number in wanted.keys() - self._seats.keys():
            seat = self._seats[number] = self._new_seat(number, wanted[number])
            task = self._tasks[number] = asyncio.ensure_future(seat.run())
            task.add_done_callback(partial(self._seat_ended, number))

    def _seat_ended(self, number: int, task: asyncio.Task[None]) -> None:
        del self._seats[number], self._tasks[number]
        self._ending.discard(number)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._end is not None and not self._end.done():
            self._end.set_exception(error)
            return
        self._reconcile()  # it may have been given back to us while its old lane was ending

    def _new_seat(self, number: int, tps: frozenset[TopicPartition]) -> Seat:
        identity = transactional_id(self._group, self._leader, number)
        return Seat(
            tps,
            group=self._group,
            offsets=self._offsets,
            producer=lambda: FencedProducer(self._connection, identity, self._group),
            lane=lambda: self._lane(number),
            counts=self.counts,
            settled=lambda: self._membership.settled,
            on_change=self._on_change,
        )

    async def _end_lanes(self) -> None:
        self._stopping = True
        self._reconcile()
        if tasks := list(self._tasks.values()):
            await asyncio.wait(tasks, timeout=END_LANES_S)
