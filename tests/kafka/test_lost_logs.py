"""Records that the log has no more: told, waited with, and never silently skipped or run again."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pytest
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from deploy.offsets import Offsets
from runtime.kafka.topics import create_topics
from schemas.topics import catalogue
from streams.router.service import Router
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.waiting import until

pytestmark = pytest.mark.kafka

WITHIN_S = 60


def requests(*names: str) -> list[bytes]:
    return [orjson.dumps({"id": n, "model_name": "m", "payload": {"prompt": "x"}}) for n in names]


def says(router: Router, word: str) -> Callable[[], bool]:
    return lambda: word in (router.unready or "")


@pytest.fixture
async def place(kafka: RunningKafka) -> RoutePlace:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    return place


async def accept(place: RoutePlace, at: str) -> list[int]:
    async with Offsets(place.settings, place.connection) as offsets:
        return [accepted.offset for accepted in await offsets.accept("router", at)]


async def routed(place: RoutePlace) -> set[str]:
    records = await place.read(*place.pool_topics)
    return {orjson.loads(record.value or b"")["id"] for record in records}


async def test_records_that_retention_took_before_they_were_read_are_told_and_waited_with(
    place: RoutePlace,
) -> None:
    async with place.router():
        await place.request(requests("a"), partition=1)
        await until(lambda: _all_routed(place, {"a"}), WITHIN_S)
    await place.request(requests("lost-1", "lost-2", "kept"), partition=1)
    admin = AIOKafkaAdminClient(**place.connection)
    await admin.start()
    try:
        gone = {TopicPartition(place.names.requests, 1): RecordsToDelete(3)}
        await admin.delete_records(gone)
    finally:
        await admin.close()
    async with place.router() as router:
        await until(says(router, "offsets-lost"), WITHIN_S)
        await place.request(requests("elsewhere"), partition=0)
        await until(lambda: _all_routed(place, {"a", "elsewhere"}), WITHIN_S)
        assert await accept(place, "earliest") == [3]
        await until(lambda: _all_routed(place, {"a", "elsewhere", "kept"}), WITHIN_S)
        await until(lambda: not says(router, "offsets-lost")(), WITHIN_S)


async def test_a_topic_that_was_deleted_and_made_anew_is_told_and_waited_with(
    place: RoutePlace,
) -> None:
    async with place.router() as router:
        await place.request(requests("a", "b"), partition=1)
        await until(lambda: _all_routed(place, {"a", "b"}), WITHIN_S)
        admin = AIOKafkaAdminClient(**place.connection)
        await admin.start()
        try:
            await admin.delete_topics([place.names.requests])
        finally:
            await admin.close()
        topics = catalogue(place.names, place.settings.pools)
        await until(lambda: _made(place, topics), WITHIN_S)
        await until(says(router, "offsets-lost"), WITHIN_S)
        await place.request(requests("new"), partition=1)
        assert await accept(place, "earliest") == [0]
        await until(lambda: _all_routed(place, {"a", "b", "new"}), WITHIN_S)


async def _all_routed(place: RoutePlace, names: set[str]) -> bool:
    return await routed(place) == names


async def _made(place: RoutePlace, topics: object) -> bool:
    return place.names.requests in await create_topics(place.connection, topics)
