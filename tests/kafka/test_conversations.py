"""A conversation stays on its node, whichever router decides: through kill -9 and a hand-over."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
import pytest

from lab.instruments.roomy_snapshot import roomy_snapshot
from schemas.control import NodeState, PartitionState, Snapshot
from schemas.decisions import DecisionRow, DecisionsRecord, decode_decisions
from schemas.topics import EMBEDDED_PARTITIONS
from streams.router.service import Router
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

CONVERSATIONS = 8
PARTITIONS = {"gpu-a": (0, 1), "gpu-b": (2, 3)}
SLOTS = 100
QUEUE = SLOTS + 1
"""A few ms to wait: less than the 50 ms of a new cache, more than nothing."""


def fleet(place: RoutePlace, number: int, *, queue_at: str) -> Snapshot:
    """Return a snapshot of two gpu nodes, of which one has a queue."""
    seen = roomy_snapshot(place.settings)
    nodes = [
        NodeState(id=name, pool="gpu", live=True, slots=SLOTS, partitions=owned, latency_ms=50.0)
        for name, owned in PARTITIONS.items()
    ]
    loads = [
        PartitionState(unfinished=QUEUE * (n == PARTITIONS[queue_at][0]), finish_rate=0.0)
        for n in range(EMBEDDED_PARTITIONS)
    ]
    gpu = seen.pools["gpu"].model_copy(update={"partitions": tuple(loads)})
    return seen.model_copy(
        update={"number": number, "nodes": tuple(nodes), "pools": {**seen.pools, "gpu": gpu}}
    )


class Talk:
    """Conversations, a turn after another, and what was decided about each turn."""

    def __init__(self, place: RoutePlace) -> None:
        self.place = place
        self.turns = 0
        self.queue_at = ""

    async def turn(self, conversations: Iterable[str]) -> list[DecisionRow]:
        """Send one turn of each and return their rows once all are decided."""
        self.turns += 1
        await self.place.publish(fleet(self.place, 1 + self.turns, queue_at=self.queue_at))
        sent = {}
        for number, conversation in enumerate(conversations):
            name = f"{conversation}-{self.turns}"
            body = {"id": name, "model_name": "m", "payload": {"prompt": "hi"}}
            sent[name] = body | {"conversation_id": conversation}
            partition = number % EMBEDDED_PARTITIONS
            await self.place.request([orjson.dumps(sent[name])], partition=partition)
        found: list[DecisionRow] = []

        async def decided() -> bool:
            read = await self.place.read(self.place.names.decisions)
            records: list[DecisionsRecord] = [decode_decisions(r.value or b"") for r in read]
            found[:] = [row for record in records for row in record.rows if row.id in sent]
            return len(found) == len(sent)

        await until(decided, 60)
        return found


async def test_conversations_stay_through_the_death_of_their_router_and_a_hand_over(
    kafka: RunningKafka,
) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    talk = Talk(place)
    bound = [f"c{number}" for number in range(CONVERSATIONS)]
    talk.queue_at = "gpu-a"
    first = place.router_process("--set", "kafka.instance_id=one")
    try:
        assert {row.node for row in await talk.turn(bound)} == {"gpu-b"}
        talk.queue_at = "gpu-b"
        await until(lambda: new_ones_go_to(talk, "gpu-a"), 60)
        assert stuck(await talk.turn(bound))
    finally:
        first.kill()
        first.wait()
    async with place.router("one"):
        assert stuck(await talk.turn(bound))
        async with place.router() as second:
            await until(lambda: owns_its_half(second), 60)
            assert stuck(await talk.turn(bound))


def owns_its_half(router: Router) -> bool:
    """Return whether all that may be wrong is the age of the snapshot, which nobody renews here."""
    return (router.unready or "stale").partition(":")[0] in {"stale", "blind"}


def stuck(decided: list[DecisionRow]) -> bool:
    return {(row.node, row.outcome, row.released) for row in decided} == {("gpu-b", "sticky", "")}


async def new_ones_go_to(talk: Talk, node: str) -> bool:
    """Return whether a conversation that nobody knows goes there: the snapshot has arrived."""
    (row,) = await talk.turn([f"new-{talk.turns}"])
    return row.node == node
