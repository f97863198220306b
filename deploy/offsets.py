"""Where the groups stand, and setting a lost offset by an operator's decision.

A partition is lost by the rule of those who own partitions (`runtime.kafka.seat`): nothing is
committed, no record of ours tells, and the log does not begin at 0; or what tells is not in the
log. Only such partitions are touched, and their counts are set so that lag stays true.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, NamedTuple

from aiokafka.structs import TopicPartition
from typing_extensions import Self

from deploy.recount import Recount
from executors.recovery import last_ledger
from runtime.kafka.connection import Connection
from runtime.kafka.offsets import Bounds, Committed, OffsetReader
from runtime.kafka.outputs import Outputs
from runtime.kafka.topics import partition_counts
from runtime.kafka.transactions import FencedProducer, transactional_id
from runtime.settings import Settings
from schemas.errors import UsageError
from schemas.metadata import is_foreign
from schemas.topics import executor_group, router_group
from streams.router.rebuild import find_offset

At = Literal["earliest", "latest"]


class Group(NamedTuple):
    """A consumer group of ours.

    Attributes:
        leader, followers: topics whose partitions of one number go together.
        recover: what our records tell of a partition without a commit.
    """

    name: str
    leader: str
    followers: tuple[str, ...]
    recover: Callable[[TopicPartition], Awaitable[Committed | None]]

    def lane(self, number: int) -> tuple[TopicPartition, ...]:
        """Return the partitions with this number."""
        return tuple(TopicPartition(topic, number) for topic in (self.leader, *self.followers))


class Standing(NamedTuple):
    """Where a group stands in one partition."""

    group: str
    partition: TopicPartition
    committed: Committed | None
    begin: int
    end: int

    @property
    def state(self) -> str:
        """Return `ok`, `none` (nothing committed) or `not-in-log`."""
        if self.committed is None:
            return "none"
        return "ok" if self.begin <= self.committed.offset <= self.end else "not-in-log"


class Accepted(NamedTuple):
    """A lost offset that was set."""

    partition: TopicPartition
    offset: int


class Offsets:
    """Reads and sets the offsets of one installation; use it as a context."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self._settings = settings
        self._connection = connection
        self._names = settings.topics
        self._reader = OffsetReader(connection)

    async def __aenter__(self) -> Self:
        await self._reader.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.close()

    async def groups(self) -> tuple[Group, ...]:
        """Return all groups: the routers', then each pool's; raise TopicMismatch."""
        names = self._names
        written = (names.results, names.retry, names.dead_letter)
        widths = await partition_counts(self._connection, written)

        def routed(tp: TopicPartition) -> Awaitable[Committed | None]:
            decisions = TopicPartition(names.decisions, tp.partition)
            return find_offset(self._connection, decisions, int(tp.topic == names.retry))

        def ran(tp: TopicPartition) -> Awaitable[Committed | None]:
            return last_ledger(self._connection, names, widths, tp)

        routers = Group(router_group(names.prefix), names.requests, (names.retry,), routed)
        pools = (
            Group(executor_group(names.prefix, pool.name), leader, tuple(followers), ran)
            for pool in self._settings.pools
            for leader, *followers in [names.of_pool(pool)]
        )
        return (routers, *pools)

    async def standings(self) -> list[Standing]:
        """Return where every group stands in each of its partitions."""
        found = []
        for group in await self.groups():
            partitions = [tp for lane in await self._lanes(group) for tp in lane]
            committed = await self._reader.committed(group.name, partitions)
            bounds = await self._reader.bounds(partitions)
            found += [Standing(group.name, tp, committed[tp], *bounds[tp]) for tp in partitions]
        return found

    async def accept(self, name: str, at: At) -> list[Accepted]:
        """Set the lost offsets of a group to the beginning or the end of what is there.

        Raises:
            UsageError: no such group.
            OverspillError: routers do not pause long enough for counts to be read.
        """
        groups = {group.name[len(self._names.prefix) :]: group for group in await self.groups()}
        group = groups.get(name.removeprefix(self._names.prefix))
        if group is None:
            raise UsageError(f"no group {name!r}; there are: {', '.join(groups)}")
        accepted = []
        for number, lane in enumerate(await self._lanes(group)):
            if await self._lost(group, lane):
                accepted += await self._accept_lane(group, number, lane, at)
        return accepted

    async def _lanes(self, group: Group) -> list[tuple[TopicPartition, ...]]:
        widths = await partition_counts(self._connection, [group.leader])
        return [group.lane(number) for number in range(widths[group.leader])]

    async def _lost(
        self, group: Group, lane: tuple[TopicPartition, ...]
    ) -> Mapping[TopicPartition, Bounds]:
        """Return the lost partitions of a lane and the bounds of their logs."""
        committed = await self._reader.committed(group.name, lane)
        bounds = await self._reader.bounds(lane)
        lost = {}
        for tp, said in committed.items():
            ours = said is not None and not is_foreign(said.metadata)
            start = said if ours else await group.recover(tp)
            begin, end = bounds[tp]
            first_start = start is None and begin == 0 and (said is None or said.offset == 0)
            if not first_start and (start is None or not begin <= start.offset <= end):
                lost[tp] = bounds[tp]
        return lost

    async def _accept_lane(
        self, group: Group, number: int, lane: tuple[TopicPartition, ...], at: At
    ) -> list[Accepted]:
        identity = transactional_id(group.name, group.leader, number)
        producer = FencedProducer(self._connection, identity, group.name)
        await producer.open()
        try:
            # Asked again now that no owner can commit: one may have come meanwhile.
            lost = await self._lost(group, lane)
            offsets = {tp: b.begin if at == "earliest" else b.end for tp, b in lost.items()}
            if not offsets:
                return []
            recount = Recount(self._settings, self._connection, self._reader)
            counted = (
                await recount.of_routers(offsets)
                if group.leader == self._names.requests
                else await recount.of_nodes(group.name, lane, offsets)
            )
            await producer.commit(Outputs(), counted)
        finally:
            await producer.close()
        return [Accepted(tp, offset) for tp, offset in offsets.items()]
